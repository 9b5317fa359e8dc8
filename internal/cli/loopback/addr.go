package loopback

import (
	"errors"
	"net"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
)

// AddrFlag adds a flag for an address to listen on: HOST:PORT.
func AddrFlag(c *cobra.Command, addr *string, name, usage string) {
	c.Flags().Var((*address)(addr), name, usage)
}

type address string

// String implements pflag.Value.
func (a *address) String() string { return string(*a) }

// Type implements pflag.Value.
func (*address) Type() string { return "string" }

// Set implements pflag.Value.
func (a *address) Set(s string) error {
	if s != "" {
		_, port, err := net.SplitHostPort(s)
		if n, bad := strconv.Atoi(port); err != nil || bad != nil || n < 0 || n > 65535 {
			return errors.New("must be HOST:PORT, such as 127.0.0.1:8080, or :8080 for every address of this " +
				"computer")
		}
	}
	*a = address(s)
	return nil
}

// ListenError returns a plain error if err says that the flag's address cannot be listened on; otherwise nil.
func ListenError(err error, flag string) error {
	var listen *net.OpError
	if !errors.As(err, &listen) || listen.Op != "listen" {
		return nil
	}
	where := ""
	if listen.Addr != nil {
		where = " on " + listen.Addr.String()
	}
	return command.Because(err, command.ExitFailed, "use --"+flag+" for another one, such as 127.0.0.1:8080",
		"the broker cannot listen%s: %v", where, listen.Err)
}
