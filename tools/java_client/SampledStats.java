import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.stats.Avg;
import org.apache.kafka.common.metrics.stats.Max;
import org.apache.kafka.common.metrics.stats.Rate;

import java.util.List;
import java.util.Scanner;
import java.util.concurrent.TimeUnit;

/**
 * Kafka's sampled statistics with a broker's default windows. Each line of the input is a time in milliseconds and a value to
 * record then, or a time alone: then rate per second, maximum and mean of that time are printed.
 */
public final class SampledStats {
    private SampledStats() {
    }

    public static void main(String[] arguments) {
        MetricConfig windows = new MetricConfig();
        Rate rate = new Rate(TimeUnit.SECONDS);
        Max max = new Max();
        Avg mean = new Avg();
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split(" ");
            long now = Long.parseLong(words[0]);
            if (words.length == 1) {
                System.out.println(rate.measure(windows, now) + " " + max.measure(windows, now) + " "
                    + mean.measure(windows, now));
                continue;
            }
            double value = Double.parseDouble(words[1]);
            rate.record(windows, value, now);
            for (var stat : List.of(max, mean)) {
                stat.record(windows, value, now);
            }
        }
    }
}
