//go:build old

package main

import "github.com/IBM/sarama"

// Up to sarama 1.38 there is one value of each.
var strategies = map[string]func() sarama.BalanceStrategy{
	"range":      func() sarama.BalanceStrategy { return sarama.BalanceStrategyRange },
	"roundrobin": func() sarama.BalanceStrategy { return sarama.BalanceStrategyRoundRobin },
	"sticky":     func() sarama.BalanceStrategy { return sarama.BalanceStrategySticky },
}
