import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** A source connector with as many tasks as it may have, which read nothing. */
public final class IdleSource extends SourceConnector {
    @Override
    public String version() {
        return "1";
    }

    @Override
    public void start(Map<String, String> settings) {
    }

    @Override
    public Class<? extends Task> taskClass() {
        return Idle.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        List<Map<String, String>> settings = new ArrayList<>();
        for (int number = 0; number < most; number++) {
            settings.add(Map.of("number", Integer.toString(number)));
        }
        return settings;
    }

    @Override
    public void stop() {
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    /** Waits. */
    public static final class Idle extends SourceTask {
        @Override
        public String version() {
            return "1";
        }

        @Override
        public void start(Map<String, String> settings) {
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            Thread.sleep(200);
            return null;
        }

        @Override
        public void stop() {
        }
    }
}
