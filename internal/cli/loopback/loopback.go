// Package loopback serves HTTP to other programs of this computer while a command runs: the dashboard to browsers, and
// TES to its clients. The API of a deployment on AWS is behind IAM, which requires signed requests, and neither signs.
// The server authenticates its clients with its own token and forwards their requests with the credentials of the user
// who started it.
package loopback

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
)

const (
	minToken        = 16               // minimum characters of a token that the user chose
	headerWait      = 10 * time.Second // for the headers of a request
	shutdownTimeout = 5 * time.Second  // for open requests when the command ends
)

// PortFlag adds the flag for the port to listen on.
func PortFlag(c *cobra.Command, port *int) {
	c.Flags().IntVar(port, "port", 0, "port of this computer; 0 takes a free one")
}

// Check validates the port and returns the token that clients must send: that of the environment variable env, or a new
// one.
func Check(a *command.App, env string, port int) (token string, err error) {
	token = a.Lookup(env)
	switch {
	case port < 0 || port > 65535:
		return "", command.BadInput("", "--port: %d is not a port", port)
	case token == "":
		return rand.Text(), nil
	case len(token) < minToken:
		return "", command.BadInput("`openssl rand -hex 16` makes one", "$%s has fewer than %d characters",
			env, minToken)
	}
	return token, nil
}

// Serve listens on a loopback port until ctx ends; port 0 takes a free one. Once it listens, it calls ready with the
// address as HOST:PORT. When ctx ends, the contexts of open requests end, and they get a moment to finish.
func Serve(ctx context.Context, port int, h http.Handler, ready func(address string) error) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return command.Because(err, command.ExitFailed, "use --port for another one, or 0 for a free one",
			"port %d of this computer: %v", port, err)
	}
	if err := ready(l.Addr().String()); err != nil {
		return errors.Join(err, l.Close())
	}
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: headerWait,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	err = s.Shutdown(last)
	if err != nil {
		err = s.Close()
	}
	<-served //nolint:errcheck // it ends because it was shut down
	return err
}
