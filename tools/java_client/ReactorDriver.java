import com.fasterxml.jackson.databind.JsonNode;

import org.apache.kafka.clients.consumer.Consumer;
import reactor.kafka.receiver.KafkaReceiver;
import reactor.kafka.receiver.ReceiverOptions;
import reactor.kafka.receiver.internals.ConsumerFactory;

import java.io.IOException;
import java.time.Duration;

/** An application on Reactor Kafka, with its own defaults but for the interval of commits. It retries nothing. */
public final class ReactorDriver {
    private ReactorDriver() {
    }

    public static void main(String[] arguments) throws IOException {
        JsonNode spec = WatchedConsumer.parse(arguments[0]);
        WatchedConsumer.started("reactor-kafka");
        ReceiverOptions<String, String> options = ReceiverOptions.<String, String>create(WatchedConsumer.settings(spec))
            .commitInterval(Duration.ofMillis(spec.get("auto_commit_interval_ms").asLong()))
            .subscription(WatchedConsumer.topics(spec));
        var subscription = KafkaReceiver.create(new Factory(), options).receive().subscribe(record -> {
            WatchedConsumer.read(record.topic(), record.partition(), record.offset(), record.value());
            record.receiverOffset().acknowledge();
        }, WatchedConsumer::failed);
        WatchedConsumer.untilClosed(subscription::dispose);
    }

    private static final class Factory extends ConsumerFactory {
        @Override
        @SuppressWarnings("unchecked")
        public <K, V> Consumer<K, V> createConsumer(ReceiverOptions<K, V> options) {
            return (Consumer<K, V>) new WatchedConsumer(options.consumerProperties());
        }
    }
}
