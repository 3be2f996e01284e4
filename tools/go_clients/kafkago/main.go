// An application on kafka-go. See tests/integration/drivers/line_protocol.py.
//
// kafka-go's group reader has no callbacks. This uses what that reader is made of, a ConsumerGroup, which
// hands out one generation after the other; it waits for the end of what runs in a generation before it joins again.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	"epochgate.test/clients/internal/line"
	"github.com/segmentio/kafka-go"
)

var balancers = map[string]kafka.GroupBalancer{
	"range":         kafka.RangeGroupBalancer{},
	"roundrobin":    kafka.RoundRobinGroupBalancer{},
	"rack-affinity": kafka.RackAffinityGroupBalancer{},
}

func main() {
	spec, commands := line.Start("kafka-go", "github.com/segmentio/kafka-go")
	group, err := kafka.NewConsumerGroup(configuration(spec))
	if err != nil {
		line.Fail(err)
	}
	app := &application{spec: spec}
	go app.run(group)
	for command := range commands {
		app.obey(group, command)
	}
}

func configuration(spec line.Spec) kafka.ConsumerGroupConfig {
	config := kafka.ConsumerGroupConfig{
		ID:                spec.Group,
		Brokers:           strings.Split(spec.Bootstrap, ","),
		Dialer:            dialer(spec),
		Topics:            spec.Topics,
		HeartbeatInterval: spec.Heartbeat(),
		SessionTimeout:    spec.Session(),
		RebalanceTimeout:  spec.Rebalance(),
		JoinGroupBackoff:  200 * time.Millisecond,
		StartOffset:       kafka.FirstOffset,
	}
	for _, name := range spec.Assignors {
		config.GroupBalancers = append(config.GroupBalancers, balancers[name])
	}
	if os.Getenv("DRIVER_LOG") == "DEBUG" {
		config.Logger = log.New(os.Stderr, "", log.LstdFlags|log.Lmicroseconds)
	}
	config.ErrorLogger = log.New(os.Stderr, "error: ", log.LstdFlags|log.Lmicroseconds)
	return config
}

func dialer(spec line.Spec) *kafka.Dialer {
	return &kafka.Dialer{ClientID: spec.ClientID, Timeout: 10 * time.Second, DualStack: true}
}

type application struct {
	spec       line.Spec
	mutex      sync.Mutex
	generation *kafka.Generation
	positions  line.Offsets // of what was read in this generation and not committed yet
}

func (a *application) run(group *kafka.ConsumerGroup) {
	for {
		generation, err := group.Next(context.Background())
		if errors.Is(err, kafka.ErrGroupClosed) {
			return
		}
		if err != nil {
			line.Error(err) // it joins again by itself
			continue
		}
		generation.Start(func(ctx context.Context) { a.work(ctx, generation) })
	}
}

// work owns the partitions of a generation until it ends; only then does kafka-go join again.
func (a *application) work(ctx context.Context, generation *kafka.Generation) {
	if ctx.Err() != nil {
		return // it ended before it began, and nobody waits for this
	}
	mine := line.Partitions{}
	for topic, assigned := range generation.Assignments {
		for _, at := range assigned {
			mine[topic] = append(mine[topic], int32(at.ID))
		}
	}
	line.Owned("assigned", mine, false)
	a.begin(generation)
	var readers sync.WaitGroup
	for topic, assigned := range generation.Assignments {
		for _, at := range assigned {
			readers.Go(func() { a.read(ctx, topic, at) })
		}
	}
	if a.spec.AutoCommit {
		a.commitUntil(ctx)
	}
	<-ctx.Done()
	readers.Wait()
	if a.spec.AutoCommit {
		a.commitOpen()
	}
	line.Owned("revoked", mine, false)
}

func (a *application) begin(generation *kafka.Generation) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.generation = generation
	a.positions = line.Offsets{}
}

func (a *application) read(ctx context.Context, topic string, from kafka.PartitionAssignment) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:   strings.Split(a.spec.Bootstrap, ","),
		Dialer:    dialer(a.spec),
		Topic:     topic,
		Partition: from.ID,
		MaxWait:   100 * time.Millisecond,
	})
	defer reader.Close()
	if err := reader.SetOffset(from.Offset); err != nil {
		line.Fail(err)
	}
	for {
		message, err := reader.ReadMessage(ctx)
		if ctx.Err() != nil || errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			line.Error(fmt.Errorf("%s-%d: %w", topic, from.ID, err))
			continue
		}
		line.Records(topic, int32(from.ID), []int64{message.Offset}, []string{string(message.Value)})
		a.mutex.Lock()
		if a.positions[topic] == nil {
			a.positions[topic] = map[int32]int64{}
		}
		a.positions[topic][int32(from.ID)] = message.Offset + 1
		a.mutex.Unlock()
	}
}

func (a *application) commitUntil(ctx context.Context) {
	ticks := time.NewTicker(a.spec.AutoCommitEvery())
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			a.commitOpen()
		case <-ctx.Done():
			return
		}
	}
}

func (a *application) commitOpen() {
	if offsets, err := a.commit(nil); err != nil {
		line.Error(fmt.Errorf("commit of %v: %w", offsets, err))
	}
}

func (a *application) commit(asked line.Offsets) (line.Offsets, error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if asked == nil {
		asked, a.positions = a.positions, line.Offsets{}
	}
	offsets := map[string]map[int]int64{}
	for topic, partitions := range asked {
		offsets[topic] = map[int]int64{}
		for partition, offset := range partitions {
			offsets[topic][int(partition)] = offset
		}
	}
	if a.generation == nil {
		return asked, errors.New("no generation yet")
	}
	return asked, a.generation.CommitOffsets(offsets)
}

func (a *application) obey(group *kafka.ConsumerGroup, command line.Command) {
	switch command.Command {
	case "commit":
		line.Committed(a.commit(command.Offsets))
	case "close":
		line.Write("closing", nil)
		if err := group.Close(); err != nil {
			line.Fail(err)
		}
		line.Closed()
	default:
		line.Fail(fmt.Errorf("unknown command %s", command.Command))
	}
}
