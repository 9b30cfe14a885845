import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;

import org.opensearch.analysis.common.CommonAnalysisPlugin;
import org.opensearch.common.settings.Settings;
import org.opensearch.index.reindex.ReindexPlugin;
import org.opensearch.knn.plugin.KNNPlugin;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.painless.PainlessPlugin;
import org.opensearch.plugins.Plugin;
import org.opensearch.transport.Netty4Plugin;

/**
 * One node with its data in a folder, on a port of the loopback interface, for as long as its standard input is open.
 *
 * <p>Arguments: the folder and the port. It prints a line when it answers.
 */
final class TestNode extends Node {

    private static final List<Class<? extends Plugin>> PLUGINS = List.of(
        Netty4Plugin.class, CommonAnalysisPlugin.class, ReindexPlugin.class, PainlessPlugin.class, KNNPlugin.class);

    private TestNode(Settings settings, Path folder) {
        super(
            InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), folder.resolve("config"), () -> "test"),
            PLUGINS,
            false);
    }

    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[0]);
        Files.createDirectories(folder.resolve("config"));
        Settings settings = Settings.builder()
            .put("path.home", folder)
            .put("cluster.name", "wenmai-tests")
            .put("discovery.type", "single-node")
            .put("network.host", "127.0.0.1")
            .put("http.port", arguments[1])
            .put("transport.port", 0)
            .put("cluster.routing.allocation.disk.threshold_enabled", false)
            .put("cluster.max_shards_per_node", 5000)
            .build();
        new TestNode(settings, folder).start();
        System.out.println("ready");
        System.out.flush();
        while (System.in.read() != -1) {
            // it ends with the process that has the other end of the pipe
        }
        Runtime.getRuntime().halt(0);
    }
}
