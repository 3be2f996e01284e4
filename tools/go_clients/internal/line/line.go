// Package line speaks the protocol of tests/integration/drivers/line_protocol.py.
package line

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Spec says how the client is to be configured.
type Spec struct {
	Bootstrap            string   `json:"bootstrap"`
	Group                string   `json:"group"`
	Topics               []string `json:"topics"`
	Assignors            []string `json:"assignors"`
	ClientID             string   `json:"client_id"`
	InstanceID           string   `json:"instance_id"`
	GroupProtocol        string   `json:"group_protocol"`
	SessionTimeoutMs     int64    `json:"session_timeout_ms"`
	HeartbeatIntervalMs  int64    `json:"heartbeat_interval_ms"`
	MaxPollIntervalMs    int64    `json:"max_poll_interval_ms"`
	AutoCommit           bool     `json:"auto_commit"`
	AutoCommitIntervalMs int64    `json:"auto_commit_interval_ms"`
	MetadataMaxAgeMs     int64    `json:"metadata_max_age_ms"`
	CommitEveryMs        int64    `json:"commit_every_ms"`
	OwnSettings          struct {
		CA          string `json:"ca"`
		Certificate string `json:"certificate"`
		Key         string `json:"key"`
	} `json:"own_settings"`
}

// Session is the session timeout.
func (s Spec) Session() time.Duration { return milliseconds(s.SessionTimeoutMs) }

// Heartbeat is the heartbeat interval.
func (s Spec) Heartbeat() time.Duration { return milliseconds(s.HeartbeatIntervalMs) }

// Rebalance is the rebalance timeout, which Java calls max.poll.interval.
func (s Spec) Rebalance() time.Duration { return milliseconds(s.MaxPollIntervalMs) }

// AutoCommitEvery is the interval of automatic commits.
func (s Spec) AutoCommitEvery() time.Duration { return milliseconds(s.AutoCommitIntervalMs) }

// CommitEvery is the interval of the application's own commits; 0 if it makes none.
func (s Spec) CommitEvery() time.Duration { return milliseconds(s.CommitEveryMs) }

// Native tells whether the client is to be a member of the new protocol by itself.
func (s Spec) Native() bool { return s.GroupProtocol == "consumer" }

// MetadataAge is the age at which metadata are asked for again.
func (s Spec) MetadataAge() time.Duration { return milliseconds(s.MetadataMaxAgeMs) }

// TLS is what a client with a certificate connects with; nil for a client without one.
func (s Spec) TLS() (*tls.Config, error) {
	files := s.OwnSettings
	if files.CA == "" {
		return nil, nil
	}
	authority, err := os.ReadFile(files.CA)
	if err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(files.Certificate, files.Key)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}, nil
}

func milliseconds(count int64) time.Duration { return time.Duration(count) * time.Millisecond }

// Partitions are {topic: [partition]}.
type Partitions map[string][]int32

// Offsets are {topic: {partition: offset}}.
type Offsets map[string]map[int32]int64

// Command is what the application is told to do.
type Command struct {
	Command string  `json:"command"`
	Offsets Offsets `json:"offsets"`
	Ms      int64   `json:"ms"`
	Topic   string  `json:"topic"`
	Value   string  `json:"value"`
}

// Start reads the specification, says `started`, and returns the commands that come.
func Start(client, module string) (Spec, <-chan Command) {
	var spec Spec
	if err := json.Unmarshal([]byte(os.Args[1]), &spec); err != nil {
		Fail(err)
	}
	Write("started", map[string]any{"client": client, "version": versionOf(module), "pid": os.Getpid()})
	commands := make(chan Command)
	go read(commands)
	return spec, commands
}

func read(commands chan<- Command) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var command Command
		if err := json.Unmarshal(lines.Bytes(), &command); err != nil {
			Fail(err)
		}
		commands <- command
	}
	os.Exit(2) // whoever started this process is gone, and nobody reads our events
}

var (
	writing  sync.Mutex
	sequence int
)

// Write stamps and writes one event. May be called from any goroutine.
func Write(event string, fields map[string]any) {
	writing.Lock()
	defer writing.Unlock()
	var mono unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono); err != nil {
		panic(err)
	}
	written := map[string]any{
		"event": event, "mono": mono.Nano(), "time": time.Now().UnixNano(), "seq": sequence,
	}
	for name, value := range fields {
		written[name] = value
	}
	sequence++
	text, err := json.Marshal(written)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
}

// Owned writes `assigned`, `revoked` or `lost`.
func Owned(event string, partitions Partitions, incremental bool) {
	if partitions == nil {
		partitions = Partitions{}
	}
	Write(event, map[string]any{"partitions": partitions, "incremental": incremental})
}

// Records writes the records of one partition.
func Records(topic string, partition int32, offsets []int64, values []string) {
	Write("records", map[string]any{
		"topic": topic, "partition": partition, "first": offsets[0], "last": offsets[len(offsets)-1],
		"offsets": offsets, "values": values,
	})
}

// Committed writes what became of a commit.
func Committed(offsets Offsets, err error) {
	if offsets == nil {
		offsets = Offsets{}
	}
	if err != nil {
		Write("commit_failed", map[string]any{"error": err.Error(), "offsets": offsets})
		return
	}
	Write("committed", map[string]any{"offsets": offsets})
}

// Error writes what the client reports beside its calls.
func Error(err error) {
	Write("error", map[string]any{"error": err.Error(), "fatal": false})
}

// Fail writes `failed` and ends the process as a crash would.
func Fail(err error) {
	Write("failed", map[string]any{"error": err.Error()})
	os.Exit(1)
}

// Closed ends the process in an orderly way.
func Closed() {
	Write("closed", nil)
	os.Exit(0)
}

func versionOf(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			return dependency.Version
		}
	}
	return "unknown"
}
