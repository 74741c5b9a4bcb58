#!/bin/sh
# Changes one node's network link.
#   link.sh NODE down            cable pulled: the node sees no carrier
#   link.sh NODE blackhole       frames vanish silently, carrier stays
#   link.sh NODE up              undoes both
#   link.sh NODE shape [rate R] [delay D] [jitter J] [loss P]
#                                both directions; R in mbit/s, D and J in ms, P in %
#   link.sh NODE clear           removes shaping
#   link.sh NODE crash           power cut: blackhole, then every process there is killed
#   link.sh NODE stats           bytes received/sent by the node since it came up
# MPINET_RAIL=r picks the rail (default 0).
set -eu
here=$(CDPATH="" cd -- "$(dirname -- "$0")" && pwd)
. "$here/common.sh"
node=$1 verb=$2; shift 2
rail=${MPINET_RAIL:-0}
port=p$rail-$node ns=$(mpinet_ns "$node") sw=$mpinet_switch
wire=$MPINET_STATE/wire/$port

clear_shape() {
    tc -n "$sw" qdisc del dev "$port" root 2>/dev/null || :
    tc -n "$ns" qdisc del dev "eth$rail" root 2>/dev/null || :
    if [ -r "$wire" ]; then
        read -r pid start <"$wire"
        [ "$(mpinet_starttime "$pid")" != "$start" ] || kill "$pid"
        rm -f "$wire"
        ip -n "$sw" link del "w$rail-$node" 2>/dev/null || :
        ip -n "$sw" link set "$port" master "br$rail"
    fi
}

case $verb in
    down) ip -n "$sw" link set "$port" down ;;
    blackhole) ip -n "$sw" link set "$port" nomaster
        ! ip -n "$sw" link show "w$rail-$node" >/dev/null 2>&1 || ip -n "$sw" link set "w$rail-$node" nomaster ;;
    up) if [ -r "$wire" ]; then ip -n "$sw" link set "w$rail-$node" master "br$rail"
        else ip -n "$sw" link set "$port" master "br$rail"; fi
        ip -n "$sw" link set "$port" up ;;
    clear) clear_shape ;;
    crash) mkdir -p "$MPINET_STATE/crashed"; : >"$MPINET_STATE/crashed/$node"
        "$0" "$node" blackhole
        for pid in $(ip netns pids "$ns"); do kill -9 "$pid" 2>/dev/null || :; done ;;
    stats)
        # /sys shows the network of whoever mounted it, so the reader needs the node's own: ip netns exec mounts it.
        ip netns exec "$ns" cat "/sys/class/net/eth$rail/statistics/rx_bytes" "/sys/class/net/eth$rail/statistics/tx_bytes" |
            xargs ;;
    shape)
        rate='' delay=0 jitter=0 loss=0
        while [ $# -ge 2 ]; do
            case $1 in
                rate) rate=$2 ;; delay) delay=$2 ;; jitter) jitter=$2 ;; loss) loss=$2 ;;
                *) mpinet_die "unknown: $1" ;;
            esac
            shift 2
        done
        clear_shape
        if [ "${MPINET_NO_NETEM:-}" = "" ] && tc -n "$sw" qdisc add dev "$port" root netem delay "${delay}ms" "${jitter}ms" loss "$loss%" ${rate:+rate ${rate}mbit} 2>/dev/null; then
            tc -n "$ns" qdisc add dev "eth$rail" root netem delay "${delay}ms" "${jitter}ms" loss "$loss%" ${rate:+rate ${rate}mbit}
        else
            # Kernel without sch_netem: rate by tbf, the rest by a userspace wire.
            if [ -n "$rate" ]; then
                tc -n "$sw" qdisc add dev "$port" root tbf rate "${rate}mbit" burst 256k latency 200ms
                tc -n "$ns" qdisc add dev "eth$rail" root tbf rate "${rate}mbit" burst 256k latency 200ms
            fi
            if [ "$delay$jitter$loss" != 000 ]; then
                bin=$MPINET_STATE/wire/netwire
                [ -x "$bin" ] || ${CC:-cc} -O2 -o "$bin" "$here/netwire.c"
                # port <-AF_PACKET-> wire process <-AF_PACKET-> v|w veth pair -> bridge
                ip -n "$sw" link set "$port" nomaster
                ip -n "$sw" link add "w$rail-$node" type veth peer name "v$rail-$node"
                ip -n "$sw" link set "v$rail-$node" up
                ip -n "$sw" link set "w$rail-$node" master "br$rail" up
                ip netns exec "$sw" "$bin" "$port" "v$rail-$node" "$delay" "$jitter" "$loss" </dev/null >/dev/null 2>&1 &
                echo "$! $(mpinet_starttime $!)" >"$wire"
            fi
        fi ;;
    *) mpinet_die "unknown verb $verb" ;;
esac
