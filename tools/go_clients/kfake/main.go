// A broker for tests: franz-go's kfake on loopback, with the topics that are named as arguments.
//
// It takes its time for DescribeGroups, as a broker far away does, so that in the meantime other members join. It writes
// its bootstrap address as one line, and ends when its stdin is closed.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	partitions     = 4
	describeGroups = 15
	delay          = 300 * time.Millisecond
)

func main() {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, os.Args[1:]...))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer cluster.Close()
	cluster.ControlKey(describeGroups, func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		cluster.SleepControl(func() { time.Sleep(delay) })
		return nil, nil, false // kfake answers it, as of now
	})
	fmt.Println(strings.Join(cluster.ListenAddrs(), ","))
	_, _ = io.Copy(io.Discard, os.Stdin)
}
