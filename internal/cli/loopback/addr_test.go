package loopback_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/loopback"
)

func TestAddrFlagValidatesHostPort(t *testing.T) {
	for addr, ok := range map[string]bool{
		"": true, "127.0.0.1:8080": true, ":8080": true, "[::1]:0": true, "host.example.org:443": true,
		"foo": false, "8080": false, "127.0.0.1": false, ":99999": false, ":-1": false, ":http": false, "::1:80": false,
	} {
		var got string
		c := &cobra.Command{}
		loopback.AddrFlag(c, &got, "addr", "")
		err := c.Flags().Parse([]string{"--addr=" + addr})
		if ok && (err != nil || got != addr) {
			t.Errorf("%q is read as %q, %v", addr, got, err)
		}
		if !ok && (err == nil || !strings.Contains(err.Error(), "must be HOST:PORT, such as 127.0.0.1:8080")) {
			t.Errorf("%q: %v", addr, err)
		}
	}
}

func TestRefusedNamesFlag(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close() //nolint:errcheck // of the test
	_, err = net.Listen("tcp", taken.Addr().String())
	refused := loopback.ListenError(fmt.Errorf("opening: %w", err), "addr")
	var said *command.Failure
	want := "the broker cannot listen on " + taken.Addr().String() + ": bind: address already in use"
	if !errors.As(refused, &said) || said.Text != want || said.Hint != "use --addr for another one, such as 127.0.0.1:8080" {
		t.Errorf("got %+v, want %s", said, want)
	}
	if err := loopback.ListenError(errors.New("another"), "addr"); err != nil {
		t.Errorf("what is about no address is told as %v", err)
	}
}
