"""Go programs: test drivers on franz-go, sarama and kafka-go, franz-go's kfake as a broker, and their build."""
