import com.fasterxml.jackson.databind.JsonNode;

import org.apache.kafka.clients.consumer.Consumer;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.event.ConsumerStoppedEvent;
import org.springframework.kafka.listener.ContainerProperties;
import org.springframework.kafka.listener.KafkaMessageListenerContainer;
import org.springframework.kafka.listener.MessageListener;

import java.io.IOException;
import java.util.Map;

/** An application on Spring Kafka, with its own defaults: it commits after each batch, and before it gives up partitions. */
public final class SpringDriver {
    private SpringDriver() {
    }

    public static void main(String[] arguments) throws IOException {
        JsonNode spec = WatchedConsumer.parse(arguments[0]);
        WatchedConsumer.started("spring-kafka");
        ContainerProperties properties =
            new ContainerProperties(WatchedConsumer.topics(spec).toArray(String[]::new));
        properties.setMessageListener((MessageListener<String, String>) record ->
            WatchedConsumer.read(record.topic(), record.partition(), record.offset(), record.value()));
        var container = new KafkaMessageListenerContainer<>(new Factory(WatchedConsumer.settings(spec)), properties);
        container.setApplicationEventPublisher(event -> {
            if (event instanceof ConsumerStoppedEvent stopped
                    && stopped.getReason() != ConsumerStoppedEvent.Reason.NORMAL) {
                WatchedConsumer.failed(new IllegalStateException(stopped.toString()));
            }
        });
        container.start();
        WatchedConsumer.untilClosed(container::stop);
    }

    private static final class Factory extends DefaultKafkaConsumerFactory<String, String> {
        Factory(Map<String, Object> settings) {
            super(settings);
        }

        @Override
        protected Consumer<String, String> createRawConsumer(Map<String, Object> settings) {
            return new WatchedConsumer(settings);
        }
    }
}
