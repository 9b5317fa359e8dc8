package freeport

import (
	"net"
	"testing"
)

func TestAddressIsFree(t *testing.T) {
	for range 20 {
		address, err := Address()
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if port := l.Addr().(*net.TCPAddr).Port; port < first || port >= end {
			t.Errorf("an outgoing connection can take port %d", port)
		}
	}
}
