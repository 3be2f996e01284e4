// CoreDNS with what a cluster without a way out asks of it. The whole of it links the clients of three clouds.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
)

// The order in which a question passes them: it is not that of the Corefile.
var plugins = []string{"bind", "ready", "errors", "cache", "kubernetes"}

func main() {
	dnsserver.Directives = plugins
	coremain.Run()
}
