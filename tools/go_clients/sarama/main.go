// An application on sarama. See tests/integration/drivers/line_protocol.py.
//
// A partition is owned for as long as its ConsumeClaim runs: sarama waits for the end of those whose
// partitions it gives up before it tells the broker.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"

	"epochgate.test/clients/internal/line"
	"github.com/IBM/sarama"
)

func main() {
	spec, commands := line.Start("sarama", "github.com/IBM/sarama")
	if os.Getenv("DRIVER_LOG") == "DEBUG" {
		sarama.Logger = log.New(os.Stderr, "", log.LstdFlags|log.Lmicroseconds)
	}
	group, err := sarama.NewConsumerGroup(strings.Split(spec.Bootstrap, ","), spec.Group, configuration(spec))
	if err != nil {
		line.Fail(err)
	}
	app := &application{positions: line.Offsets{}}
	go func() {
		for err := range group.Errors() {
			line.Error(err)
		}
	}()
	go consume(group, spec.Topics, app)
	for command := range commands {
		app.obey(group, command)
	}
}

func configuration(spec line.Spec) *sarama.Config {
	config := sarama.NewConfig()
	config.ClientID = spec.ClientID
	config.Metadata.RefreshFrequency = spec.MetadataAge()
	config.Consumer.Return.Errors = true
	config.Consumer.Group.Session.Timeout = spec.Session()
	config.Consumer.Group.Heartbeat.Interval = spec.Heartbeat()
	config.Consumer.Group.Rebalance.Timeout = spec.Rebalance()
	config.Consumer.Group.Rebalance.GroupStrategies = nil
	for _, name := range spec.Assignors {
		config.Consumer.Group.Rebalance.GroupStrategies = append(
			config.Consumer.Group.Rebalance.GroupStrategies, strategies[name]())
	}
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = spec.AutoCommit
	config.Consumer.Offsets.AutoCommit.Interval = spec.AutoCommitEvery()
	return config
}

func consume(group sarama.ConsumerGroup, topics []string, app *application) {
	for {
		err := group.Consume(context.Background(), topics, app)
		if errors.Is(err, sarama.ErrClosedConsumerGroup) {
			return
		}
		if errors.Is(err, sarama.ErrOutOfBrokers) {
			line.Error(err) // no broker was there for Metadata.Retry, a second: applications call it again
			continue
		}
		if err != nil {
			line.Fail(err)
		}
	}
}

// application is the ConsumerGroupHandler.
type application struct {
	mutex     sync.Mutex
	session   sarama.ConsumerGroupSession
	positions line.Offsets // of what was read in this session
}

// Setup is called when a session begins.
func (a *application) Setup(session sarama.ConsumerGroupSession) error {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.session = session
	a.positions = line.Offsets{}
	return nil
}

// Cleanup is called when it has ended.
func (a *application) Cleanup(sarama.ConsumerGroupSession) error { return nil }

// ConsumeClaim reads one partition until it is taken away.
func (a *application) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	mine := line.Partitions{claim.Topic(): {claim.Partition()}}
	line.Owned("assigned", mine, true)
	defer line.Owned("revoked", mine, true)
	for message := range claim.Messages() {
		line.Records(message.Topic, message.Partition, []int64{message.Offset}, []string{string(message.Value)})
		session.MarkMessage(message, "")
		a.read(message)
	}
	return nil
}

func (a *application) read(message *sarama.ConsumerMessage) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.positions[message.Topic] == nil {
		a.positions[message.Topic] = map[int32]int64{}
	}
	a.positions[message.Topic][message.Partition] = message.Offset + 1
}

func (a *application) obey(group sarama.ConsumerGroup, command line.Command) {
	switch command.Command {
	case "commit":
		a.commit(command.Offsets)
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

// commit can't say whether it worked: sarama reports a refusal among its errors only.
func (a *application) commit(asked line.Offsets) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if asked == nil {
		asked = a.positions
	}
	for topic, partitions := range asked {
		for partition, offset := range partitions {
			a.session.MarkOffset(topic, partition, offset, "")
		}
	}
	a.session.Commit()
	line.Committed(asked, nil)
}
