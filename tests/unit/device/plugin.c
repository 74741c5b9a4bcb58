/* A library to load and unload: tests/unit/device/gate.cpp. */
__attribute__((visibility("default"))) int plugin_value(void) {
    return PLUGIN_VALUE;
}
