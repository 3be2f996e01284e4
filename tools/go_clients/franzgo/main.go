// An application on franz-go. See tests/integration/drivers/line_protocol.py.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"epochgate.test/clients/internal/line"
	"github.com/twmb/franz-go/pkg/kgo"
)

var balancers = map[string]func() kgo.GroupBalancer{
	"range":              kgo.RangeBalancer,
	"roundrobin":         kgo.RoundRobinBalancer,
	"sticky":             kgo.StickyBalancer,
	"cooperative-sticky": kgo.CooperativeStickyBalancer,
}

func main() {
	spec, commands := line.Start("franz-go", "github.com/twmb/franz-go")
	client, err := kgo.NewClient(options(spec)...)
	if err != nil {
		line.Fail(err)
	}
	for {
		select {
		case command := <-commands:
			obey(client, command)
		default:
			poll(client)
		}
	}
}

func options(spec line.Spec) []kgo.Opt {
	var chosen []kgo.GroupBalancer
	for _, name := range spec.Assignors {
		chosen = append(chosen, balancers[name]())
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(spec.Bootstrap, ",")...),
		kgo.ClientID(spec.ClientID),
		kgo.ConsumerGroup(spec.Group),
		kgo.ConsumeTopics(spec.Topics...),
		kgo.Balancers(chosen...),
		kgo.SessionTimeout(spec.Session()),
		kgo.RebalanceTimeout(spec.Rebalance()),
		kgo.HeartbeatInterval(spec.Heartbeat()),
		kgo.MetadataMaxAge(spec.MetadataAge()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.BlockRebalanceOnPoll(), // what was polled is reported before its partition can be taken
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, assigned map[string][]int32) {
			line.Owned("assigned", assigned, true)
		}),
		kgo.OnPartitionsRevoked(func(ctx context.Context, client *kgo.Client, revoked map[string][]int32) {
			if spec.AutoCommit { // with a callback of its own, an application commits there itself
				if err := client.CommitUncommittedOffsets(ctx); err != nil {
					line.Error(err)
				}
			}
			line.Owned("revoked", revoked, true)
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
			line.Owned("lost", lost, true)
		}),
	}
	if os.Getenv("DRIVER_LOG") == "DEBUG" {
		options = append(options, kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelDebug, nil)))
	}
	if !spec.AutoCommit {
		return append(options, kgo.DisableAutoCommit())
	}
	return append(options, kgo.AutoCommitInterval(spec.CommitEvery()))
}

func poll(client *kgo.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	fetches := client.PollFetches(ctx)
	fetches.EachError(func(topic string, partition int32, err error) {
		if !errors.Is(err, context.DeadlineExceeded) {
			line.Error(fmt.Errorf("%s-%d: %w", topic, partition, err))
		}
	})
	fetches.EachPartition(func(part kgo.FetchTopicPartition) {
		if len(part.Records) == 0 {
			return
		}
		var offsets []int64
		var values []string
		for _, record := range part.Records {
			offsets = append(offsets, record.Offset)
			values = append(values, string(record.Value))
		}
		line.Records(part.Topic, part.Partition, offsets, values)
	})
	client.AllowRebalance()
}

func obey(client *kgo.Client, command line.Command) {
	switch command.Command {
	case "commit":
		commit(client, command.Offsets)
	case "stall":
		time.Sleep(time.Duration(command.Ms) * time.Millisecond)
	case "close":
		line.Write("closing", nil)
		client.CloseAllowingRebalance()
		line.Closed()
	default:
		line.Fail(fmt.Errorf("unknown command %s", command.Command))
	}
}

func commit(client *kgo.Client, asked line.Offsets) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if asked == nil {
		positions := client.UncommittedOffsets()
		line.Committed(plain(positions), client.CommitUncommittedOffsets(ctx))
		return
	}
	var records []*kgo.Record
	for topic, partitions := range asked {
		for partition, offset := range partitions {
			records = append(records, &kgo.Record{
				Topic: topic, Partition: partition, Offset: offset - 1, LeaderEpoch: -1,
			})
		}
	}
	line.Committed(asked, client.CommitRecords(ctx, records...))
}

func plain(positions map[string]map[int32]kgo.EpochOffset) line.Offsets {
	offsets := line.Offsets{}
	for topic, partitions := range positions {
		offsets[topic] = map[int32]int64{}
		for partition, at := range partitions {
			offsets[topic][partition] = at.Offset
		}
	}
	return offsets
}
