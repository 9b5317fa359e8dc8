package onmachine

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"

	"github.com/tradewind-broker/tradewind/internal/tunnel"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

// sshServer is an SSH server on this computer for the one client that has started it (ProxyCommand in ssh_config(5)).
// Each session is a visit to the machine, and so are the connections to each of its ports. The user who starts it has
// the broker's token, so the server does not authenticate the client, and its key is temporary.
type sshServer struct {
	b Broker
	w Target

	mu    sync.Mutex
	ports map[int]*openVisit
}

// ServeSSH serves one client on conn until the client leaves or ctx ends.
func ServeSSH(ctx context.Context, b Broker, w Target, conn net.Conn) error {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		return err
	}
	cfg := &ssh.ServerConfig{NoClientAuth: true, ServerVersion: "SSH-2.0-tradewind"}
	cfg.AddHostKey(signer)
	served, channels, requests, err := ssh.NewServerConn(conn, cfg)
	if err != nil {
		return fmt.Errorf("ssh: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = served.Close() })
	defer stop()
	s := &sshServer{b: b, w: w, ports: map[int]*openVisit{}}
	go ssh.DiscardRequests(requests) // nothing here forwards to the client
	var open sync.WaitGroup
	for ch := range channels {
		switch ch.ChannelType() {
		case "session":
			open.Go(func() { s.session(ctx, ch) })
		case "direct-tcpip":
			open.Go(func() { s.connect(ctx, ch) })
		default:
			_ = ch.Reject(ssh.UnknownChannelType, "tradewind: sessions and connections to the machine's ports only")
		}
	}
	cancel() // running commands end with the connection
	open.Wait()
	s.leave()
	return nil
}

// leave ends the visits to ports.
func (s *sshServer) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.ports {
		_ = g.close()
	}
}

// Payloads of SSH requests (RFC 4254), with fields in the order of the RFC.
type (
	ptyRequest struct {
		Term                   string
		Cols, Rows, Wide, High uint32
		Modes                  string
	}
	sizeRequest   struct{ Cols, Rows, Wide, High uint32 }
	execRequest   struct{ Command string }
	envRequest    struct{ Name, Value string }
	systemRequest struct{ Name string }
	signalRequest struct{ Name string }
	exitStatus    struct{ Code uint32 }
	dialRequest   struct {
		Host     string
		Port     uint32
		From     string
		FromPort uint32
	}
)

// sshSession is one command or terminal.
type sshSession struct {
	server *sshServer
	ch     ssh.Channel
	start  tunnel.Start
	env    []string
	notes  chan tunnel.Note
	begun  bool
	over   chan struct{}
}

func (s *sshServer) session(ctx context.Context, offered ssh.NewChannel) {
	ch, requests, err := offered.Accept()
	if err != nil {
		return
	}
	x := &sshSession{server: s, ch: ch, notes: make(chan tunnel.Note), over: make(chan struct{})}
	var running sync.WaitGroup
	for r := range requests {
		ok := x.handleRequest(r, func() { running.Go(func() { x.run(ctx) }) })
		if r.WantReply {
			_ = r.Reply(ok, nil)
		}
	}
	if !x.begun {
		_ = ch.Close()
	}
	running.Wait()
}

// size returns a terminal size, limited to the maximum of a note.
func size(cols, rows uint32) tunnel.Size {
	const most = 1<<16 - 1
	return tunnel.Size{Rows: uint16(min(rows, most)), Cols: uint16(min(cols, most))} //nolint:gosec // limited above
}

// handleRequest handles a request of a session and reports whether it succeeded.
func (x *sshSession) handleRequest(r *ssh.Request, begin func()) bool {
	var (
		pty    ptyRequest
		sized  sizeRequest
		exec   execRequest
		env    envRequest
		system systemRequest
		sent   signalRequest
	)
	read := func(into any) bool { return ssh.Unmarshal(r.Payload, into) == nil }
	switch r.Type {
	case "pty-req":
		if x.begun || !read(&pty) {
			return false
		}
		x.start.Terminal, x.start.Term, x.start.Size = true, pty.Term, size(pty.Cols, pty.Rows)
	case "env":
		if x.begun || !read(&env) || !isName(env.Name) {
			return false
		}
		x.env = append(x.env, env.Name+"="+env.Value)
	case "shell":
		return x.begin(nil, begin)
	case "exec":
		return read(&exec) && x.begin([]string{"sh", "-c", exec.Command}, begin)
	case "subsystem":
		return read(&system) && system.Name == "sftp" && x.begin([]string{"sh", "-c", sftpServer}, begin)
	case "window-change":
		if !read(&sized) {
			return false
		}
		now := size(sized.Cols, sized.Rows)
		return x.note(tunnel.Note{Size: &now})
	case "signal":
		return read(&sent) && x.note(tunnel.Note{Signal: sent.Name})
	default:
		return false
	}
	return true
}

// sftpServer starts OpenSSH's SFTP server if the machine or the task's image has one.
const sftpServer = `for p in /usr/lib/openssh /usr/libexec/openssh /usr/lib/ssh /usr/libexec; do
  [ -x $p/sftp-server ] && exec $p/sftp-server
done
echo "there is no sftp-server on the machine: scp -O, or rsync, does without" >&2
exit 127`

// isName reports whether an environment variable has a valid name.
func isName(name string) bool {
	return name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// begin starts the session's only command; argv nil means a shell.
func (x *sshSession) begin(argv []string, begin func()) bool {
	if x.begun {
		return false
	}
	x.begun = true
	if argv == nil && !x.start.Terminal { // a shell script follows on standard input
		argv = []string{"sh"}
	}
	if argv != nil && len(x.env) > 0 {
		argv = append(append([]string{"env"}, x.env...), argv...)
	}
	x.start.Command = argv
	begin()
	return true
}

// note sends a note to the command, if it is still running.
func (x *sshSession) note(n tunnel.Note) bool {
	if !x.begun {
		return false
	}
	select {
	case x.notes <- n:
		return true
	case <-x.over:
		return false
	}
}

// sshFailedExit is the exit code of ssh itself, for a command that did not run to its end.
const sshFailedExit = 255

// run runs the command and reports how it ended.
func (x *sshSession) run(ctx context.Context) {
	code, err := x.visit(ctx)
	close(x.over)
	if err != nil {
		code = sshFailedExit
		_, _ = io.WriteString(x.ch.Stderr(), "tradewind: "+err.Error()+"\r\n")
	}
	_ = x.ch.CloseWrite()
	_, _ = x.ch.SendRequest("exit-status", false, ssh.Marshal(exitStatus{uint32(code)})) //nolint:gosec // 0 to 255
	_ = x.ch.Close()
}

func (x *sshSession) visit(ctx context.Context) (int, error) {
	p := Process{In: x.ch, Out: x.ch, Err: x.ch.Stderr(), Interrupted: ctx.Done()}
	v := client.Visiting{Kind: tunnel.Exec, Command: x.start.Command}
	if x.start.Terminal {
		v.Kind = tunnel.Shell
	}
	notes := make(chan tunnel.Note)
	go func() { // keeps notes that are sent before the machine connects
		defer close(notes)
		for {
			select {
			case n := <-x.notes:
				select {
				case notes <- n:
				case <-x.over:
					return
				}
			case <-x.over:
				return
			}
		}
	}()
	g, err := open(ctx, x.server.b, x.server.w, v, p)
	if err != nil {
		return 0, err
	}
	code, err := g.run(x.start, p, notes)
	return code, g.closeAfter(err)
}

// connect connects the client to a port of the machine.
func (s *sshServer) connect(ctx context.Context, offered ssh.NewChannel) {
	var to dialRequest
	if err := ssh.Unmarshal(offered.ExtraData(), &to); err != nil {
		_ = offered.Reject(ssh.ConnectionFailed, "tradewind: "+err.Error())
		return
	}
	if ip := net.ParseIP(to.Host); to.Host != "localhost" && !ip.IsLoopback() {
		_ = offered.Reject(ssh.Prohibited,
			"tradewind: "+to.Host+": only ports of the machine itself, as in localhost:8888")
		return
	}
	there, err := s.dial(ctx, int(to.Port))
	if err != nil {
		_ = offered.Reject(ssh.ConnectionFailed, "tradewind: "+err.Error())
		return
	}
	ch, requests, err := offered.Accept()
	if err != nil {
		_ = there.Close()
		return
	}
	go ssh.DiscardRequests(requests)
	there.copyBoth(ch)
}

// dial connects to a port through its open visit, or a new one.
func (s *sshServer) dial(ctx context.Context, port int) (*portConn, error) {
	s.mu.Lock()
	g := s.ports[port]
	if g == nil || g.mux.IsClosed() { // the broker ends idle visits
		var err error
		g, err = open(ctx, s.b, s.w, client.Visiting{Kind: tunnel.Forward, Port: port},
			Process{Err: io.Discard, Interrupted: ctx.Done()})
		if err != nil {
			s.mu.Unlock()
			return nil, err
		}
		s.ports[port] = g
	}
	s.mu.Unlock()
	return g.dial()
}
