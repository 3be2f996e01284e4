import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/**
 * Reads lines "name BASE64" (a DER name) and "map RULES TEXT" (both in base64), and prints "ok BASE64" or "error CLASS" for each.
 */
public class PrincipalOracle {
    private static String text(String base64) {
        return new String(Base64.getDecoder().decode(base64), StandardCharsets.UTF_8);
    }

    private static String answer(String[] words) throws Exception {
        if (words[0].equals("name")) {
            return new X500Principal(Base64.getDecoder().decode(words[1])).getName();
        }
        return SslPrincipalMapper.fromRules(text(words[1])).getName(text(words[2]));
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            try {
                byte[] told = answer(line.split(" ", -1)).getBytes(StandardCharsets.UTF_8);
                System.out.println("ok " + Base64.getEncoder().encodeToString(told));
            } catch (Exception error) {
                System.out.println("error " + error.getClass().getSimpleName());
            }
        }
    }
}
