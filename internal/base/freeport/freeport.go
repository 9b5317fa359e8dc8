// Package freeport finds free ports for servers that another process starts and that need their port as an argument.
package freeport

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// Linux takes the ports of outgoing connections, and those of servers that leave the choice to it, from 32768 on
// (ip_local_port_range), other systems from 49152 on. A port below them stays free until its server starts.
const first, end = 16384, 32768

const tries = 100

// Find returns a TCP port on loopback that nothing listens on.
func Find() (int, error) {
	for range tries {
		port := first + rand.IntN(end-first)                                           //nolint:gosec // not a secret
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))) //nolint:noctx // immediate
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("no port is free on 127.0.0.1")
}

// Address returns a loopback address, HOST:PORT, that nothing listens on.
func Address() (string, error) {
	port, err := Find()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), err
}
