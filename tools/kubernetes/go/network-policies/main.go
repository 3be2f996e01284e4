// Keeps the NetworkPolicies of one node: kube-router's controller for them, without its routes and its proxy.
package main

import (
	"flag"
	"log"
	"sync"

	"github.com/cloudnativelabs/kube-router/v2/pkg/controllers/netpol"
	"github.com/cloudnativelabs/kube-router/v2/pkg/healthcheck"
	"github.com/cloudnativelabs/kube-router/v2/pkg/options"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "how the API server is reached")
	node := flag.String("node", "", "name of this node")
	services := flag.String("services", "", "addresses of services, as the API server has them")
	klog.InitFlags(nil)
	flag.Parse()
	if err := run(*kubeconfig, *node, *services); err != nil {
		log.Fatal(err)
	}
}

func run(kubeconfig, node, services string) error {
	connection, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(connection)
	if err != nil {
		return err
	}
	config := options.NewKubeRouterConfig()
	config.HostnameOverride = node
	config.ClusterIPCIDRs = []string{services}
	config.EnableIPv4, config.EnableIPv6 = true, false
	commands, sets, err := netpol.NewIPTablesHandlers(config)
	if err != nil {
		return err
	}

	ended := make(chan struct{})
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods().Informer()
	namespaces := factory.Core().V1().Namespaces().Informer()
	policies := factory.Networking().V1().NetworkPolicies().Informer()
	factory.Start(ended)
	factory.WaitForCacheSync(ended)

	var setsInUse sync.Mutex
	controller, err := netpol.NewNetworkPolicyController(
		client, config, pods, policies, namespaces, &setsInUse, commands, sets)
	if err != nil {
		return err
	}
	for _, one := range []struct {
		of      cache.SharedIndexInformer
		handler cache.ResourceEventHandler
	}{
		{pods, controller.PodEventHandler},
		{namespaces, controller.NamespaceEventHandler},
		{policies, controller.NetworkPolicyEventHandler},
	} {
		if _, err := one.of.AddEventHandler(one.handler); err != nil {
			return err
		}
	}

	beats := make(chan *healthcheck.ControllerHeartbeat)
	go func() {
		for range beats { // nobody asks how it is; unread, they would stop it
		}
	}()
	var running sync.WaitGroup
	running.Add(1)
	controller.Run(beats, ended, &running)
	return nil
}
