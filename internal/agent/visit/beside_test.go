//go:build unix

package visit_test

import (
	"bufio"
	"context"
	"os"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/proc"
	"github.com/tradewind-broker/tradewind/internal/agent/visit"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/tunnel"
	"github.com/tradewind-broker/tradewind/internal/tunnel/relay"
	"github.com/tradewind-broker/tradewind/internal/tunnel/tunneltest"
	"github.com/tradewind-broker/tradewind/pkg/store/mem"
)

func TestMain(m *testing.M) {
	proc.Reexec()
	os.Exit(m.Run())
}

// A user's command ends the task on whose machine it runs, so the attempt finishes together with the command. The
// user must still get the command's exit code. If the command was killed, the user must learn that the attempt has
// finished.
func TestExecReportsExitCodeWhenAttemptEndsToo(t *testing.T) {
	for _, c := range []struct {
		name, script string
		exit         int
		reason       string
	}{
		// This command leaves a process that ignores SIGTERM. The process prints when the command itself has ended.
		{"ended", `me=$$; trap "" TERM
			(while kill -0 $me; do sleep 0.01; done 2>/dev/null; echo now; sleep 1000) & exit 3`, 3, ""},
		{"cut off", `echo now; exec sleep 1000`, 0, "the attempt has finished"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := relay.New(mem.New(), time.Now, time.Millisecond)
			attempt, over := context.WithCancel(t.Context())
			defer over()
			place := visit.Place{Grace: time.Millisecond, Command: func(argv []string, _ bool, _ string) (proc.Spec, error) {
				return proc.Spec{Argv: argv, Env: os.Environ(), Linger: time.Hour}, nil
			}}
			machine := tunneltest.Calls{Relay: r, Out: "down", In: "up"}
			ended := make(chan wire.VisitEnded, 1)
			go func() {
				ended <- visit.Serve(attempt, machine, wire.Visit{Number: 1, Kind: string(tunnel.Exec)}, place)
			}()
			visitor := tunneltest.Calls{Relay: r, Out: "up", In: "down"}
			heard := person(t, tunnel.Connect(t.Context(), visitor), c.script, over)
			got := <-ended
			switch {
			case c.reason != "":
				if got.Exit != nil || got.Reason != c.reason || heard.Error != c.reason {
					t.Errorf("it ended with %+v, and the user received %+v", got, heard)
				}
			case got.Exit == nil || *got.Exit != c.exit || heard.Exit == nil || *heard.Exit != c.exit:
				t.Errorf("it ended with %+v, and the user received %+v", got, heard)
			}
		})
	}
}

// person runs a script as a user with a shell on the machine, and calls over after the script's first line of output.
// It returns the last message of the connection.
func person(t *testing.T, conn *tunnel.Conn, script string, over func()) (last tunnel.Note) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	defer conn.Close() //nolint:errcheck // a test's
	must(tunnel.AwaitMachine(conn))
	mux, err := tunnel.UserSession(conn)
	must(err)
	control, err := tunnel.Open(mux, tunnel.Control)
	must(err)
	must(tunnel.WriteLine(control, tunnel.Start{Command: []string{"/bin/sh", "-c", script}}))
	main, err := tunnel.Open(mux, tunnel.Main)
	must(err)
	_, err = tunnel.Open(mux, tunnel.Errors)
	must(err)
	_, err = bufio.NewReader(main).ReadString('\n')
	must(err)
	over()
	must(tunnel.NewLines(control).Next(&last))
	must(control.Close())
	return last
}
