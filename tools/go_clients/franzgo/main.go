// An application on franz-go. See tests/integration/drivers/line_protocol.py.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"epochgate.test/clients/internal/line"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
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
	every := spec.CommitEvery()
	due := time.Now().Add(every)
	for {
		select {
		case command := <-commands:
			obey(client, spec, command)
		default:
			poll(client)
		}
		if every > 0 && time.Now().After(due) {
			commitRead(client, nil)
			due = time.Now().Add(every)
		}
	}
}

func options(spec line.Spec) []kgo.Opt {
	var chosen []kgo.GroupBalancer
	if spec.Native() && len(spec.Assignors) == 0 {
		spec.Assignors = []string{"sticky"} // which franz-go calls the broker's uniform assignor
	}
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
			if spec.CommitEvery() > 0 {
				commitRead(client, revoked)
			} else if spec.AutoCommit { // with a callback of its own, an application commits there itself
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
	if spec.Native() {
		options = append(options, kgo.ServerSideBalancer())
	}
	config, err := spec.TLS()
	if err != nil {
		line.Fail(err)
	}
	if config != nil {
		options = append(options, kgo.DialTLSConfig(config))
	}
	if spec.InstanceID != "" {
		options = append(options, kgo.InstanceID(spec.InstanceID))
	}
	if os.Getenv("DRIVER_LOG") == "DEBUG" {
		options = append(options, kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelDebug, nil)))
	}
	if !spec.AutoCommit || spec.CommitEvery() > 0 {
		return append(options, kgo.DisableAutoCommit())
	}
	return append(options, kgo.AutoCommitInterval(spec.AutoCommitEvery()))
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

func obey(client *kgo.Client, spec line.Spec, command line.Command) {
	switch command.Command {
	case "commit":
		commit(client, command.Offsets)
	case "produce":
		produce(client, command.Topic, command.Value)
	case "describe":
		describe(client, spec.Group)
	case "stall":
		time.Sleep(time.Duration(command.Ms) * time.Millisecond)
	case "close":
		if spec.CommitEvery() > 0 {
			commitRead(client, nil)
		}
		line.Write("closing", nil)
		client.CloseAllowingRebalance()
		line.Closed()
	default:
		line.Fail(fmt.Errorf("unknown command %s", command.Command))
	}
}

// produce writes one record and says `produced`.
func produce(client *kgo.Client, topic, value string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	written, err := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(value)}).First()
	if err != nil {
		line.Error(err)
		return
	}
	line.Write("produced", map[string]any{
		"topic": topic, "partition": written.Partition, "offset": written.Offset, "value": value,
	})
}

// describe asks for its own group, as kadm's users do, and says `described`.
func describe(client *kgo.Client, group string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	described, err := kadm.NewClient(client).DescribeGroups(ctx, group)
	if err == nil {
		err = described[group].Err
	}
	if err != nil {
		line.Error(err)
		return
	}
	line.Write("described", map[string]any{
		"state": described[group].State, "members": len(described[group].Members),
	})
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

// commitRead commits what was read and is not committed yet, of all partitions or of these.
func commitRead(client *kgo.Client, of map[string][]int32) {
	read := map[string]map[int32]kgo.EpochOffset{}
	for topic, partitions := range client.UncommittedOffsets() {
		for partition, at := range partitions {
			if of == nil || slices.Contains(of[topic], partition) {
				if read[topic] == nil {
					read[topic] = map[int32]kgo.EpochOffset{}
				}
				read[topic][partition] = at
			}
		}
	}
	if len(read) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var refused error
	client.CommitOffsetsSync(ctx, read, func(
		_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error,
	) {
		refused = firstError(response, err)
	})
	line.Committed(plain(read), refused)
}

func firstError(response *kmsg.OffsetCommitResponse, err error) error {
	if err != nil {
		return err
	}
	for _, topic := range response.Topics {
		for _, partition := range topic.Partitions {
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
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
