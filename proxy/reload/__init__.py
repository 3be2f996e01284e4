"""What is reloaded while clients are served: the configuration, its accounts, the policy, and a policy's ConfigMaps."""
