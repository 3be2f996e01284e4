// Asks about a group as tools do that are written in Go, with the calls of their sources and the libraries that they
// use: Redpanda Console (kadm), KEDA's scalers `kafka` (sarama) and `apache-kafka` (kafka-go).
//
//	askers BOOTSTRAP GROUP TOPIC
//
// One line of JSON for each: what it would show, or the error that it would fail with.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

type seen struct {
	Tool    string `json:"tool"`
	Error   string `json:"error,omitempty"`
	Listed  bool   `json:"listed"`
	State   string `json:"state,omitempty"`
	Members int    `json:"members"`
	Lag     int64  `json:"lag"`
}

func main() {
	bootstrap, group, topic := os.Args[1], os.Args[2], os.Args[3]
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for _, look := range []func(context.Context, string, string, string) seen{console, kedaKafka, kedaApacheKafka} {
		line, _ := json.Marshal(look(ctx, bootstrap, group, topic))
		fmt.Println(string(line))
	}
}

// console does what GetConsumerGroupsOverview does: list, describe, leave out what has an error, sum up the lag.
func console(ctx context.Context, bootstrap, group, _ string) seen {
	found := seen{Tool: "console"}
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	if err != nil {
		return failed(found, err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	listed, err := admin.ListGroups(ctx)
	if err != nil {
		return failed(found, err)
	}
	_, found.Listed = listed[group]
	described, err := admin.DescribeGroups(ctx, group)
	if err != nil {
		return failed(found, err)
	}
	if one := described[group]; one.Err != nil {
		return failed(found, one.Err)
	} else {
		found.State, found.Members = one.State, len(one.Members)
	}
	commits := admin.FetchManyOffsets(ctx, group)[group]
	if commits.Err != nil {
		return failed(found, commits.Err)
	}
	ends, err := admin.ListEndOffsets(ctx, commits.Fetched.Offsets().TopicsSet().Topics()...)
	if err != nil {
		return failed(found, err)
	}
	commits.Fetched.Each(func(one kadm.OffsetResponse) {
		if end, ok := ends.Lookup(one.Topic, one.Partition); ok {
			found.Lag += end.Offset - one.At
		}
	})
	return found
}

// kedaKafka does what the scaler `kafka` does: committed offsets and ends of a topic. It asks for no member.
func kedaKafka(_ context.Context, bootstrap, group, topic string) seen {
	found := seen{Tool: "keda kafka"}
	config := sarama.NewConfig()
	config.Version = sarama.V1_0_0_0 // the scaler's default
	client, err := sarama.NewClient([]string{bootstrap}, config)
	if err != nil {
		return failed(found, err)
	}
	defer client.Close()
	admin, err := sarama.NewClusterAdminFromClient(client)
	if err != nil {
		return failed(found, err)
	}
	topics, err := admin.DescribeTopics([]string{topic})
	if err != nil {
		return failed(found, err)
	}
	var partitions []int32
	for _, one := range topics[0].Partitions {
		partitions = append(partitions, one.ID)
	}
	commits, err := admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: partitions})
	if err != nil {
		return failed(found, err)
	}
	for _, partition := range partitions {
		end, err := client.GetOffset(topic, partition, sarama.OffsetNewest)
		if err != nil {
			return failed(found, err)
		}
		if block := commits.GetBlock(topic, partition); block != nil && block.Offset >= 0 {
			found.Lag += end - block.Offset
		}
	}
	return found
}

// kedaApacheKafka does what the scaler `apache-kafka` does without a topic: it looks for the topics of members.
func kedaApacheKafka(ctx context.Context, bootstrap, group, _ string) seen {
	found := seen{Tool: "keda apache-kafka"}
	client := kafka.Client{Addr: kafka.TCP(bootstrap)}
	described, err := client.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{Addr: client.Addr, GroupIDs: []string{group}})
	if err != nil {
		return failed(found, err)
	}
	one := described.Groups[0]
	found.State, found.Members = one.GroupState, len(one.Members)
	if len(one.Members) == 0 {
		found.Error = fmt.Sprintf("no active members in group %s, group-state is %s", group, one.GroupState)
	}
	return found
}

func failed(found seen, err error) seen {
	found.Error = err.Error()
	return found
}
