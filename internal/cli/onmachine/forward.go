package onmachine

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/tradewind-broker/tradewind/internal/tunnel"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

// Forward forwards connections to a local listener to a port of the machine, until ctx ends.
func Forward(ctx context.Context, b Broker, w Target, listener net.Listener, port int, p Process,
	ready func() error,
) error {
	g, err := open(ctx, b, w, client.Visiting{Kind: tunnel.Forward, Port: port}, p)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	if err := ready(); err != nil {
		return errors.Join(err, listener.Close(), g.close())
	}
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	go func() {
		<-g.mux.CloseChan()
		_ = listener.Close()
	}()
	var open sync.WaitGroup
	for {
		conn, err := listener.Accept()
		if err != nil {
			break
		}
		open.Go(func() {
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // ends idle connections, too
			to, err := g.dial()
			if err == nil {
				to.copyBoth(conn)
				return
			}
			if ctx.Err() == nil {
				_, _ = io.WriteString(p.Err, "tradewind: "+err.Error()+"\n")
			}
			_ = conn.Close() // after the error is printed, so that a refused user finds the reason there
		})
	}
	err = g.close()
	open.Wait()
	if ctx.Err() != nil {
		return nil // the user ended it
	}
	return err
}

// portConn is a connection to a port of the machine.
type portConn struct {
	io.WriteCloser
	from io.Reader
	gone <-chan struct{} // closed when the visit has ended
}

// dial connects to the port of the visit.
func (g *openVisit) dial() (*portConn, error) {
	st, err := tunnel.Open(g.mux, tunnel.Dial)
	if err != nil {
		return nil, err
	}
	lines := tunnel.NewLines(st)
	var n tunnel.Note
	if err := lines.Next(&n); err != nil {
		return nil, errors.Join(err, st.Close())
	}
	if n.Error != "" {
		return nil, errors.Join(errors.New("on the machine: "+n.Error), st.Close())
	}
	return &portConn{st, lines, g.mux.CloseChan()}, nil
}

// copyBoth copies data in both directions between a local connection and one to the machine, and closes both when all
// is copied or the visit ends.
func (d *portConn) copyBoth(conn io.ReadWriteCloser) {
	defer conn.Close() //nolint:errcheck // all data is copied
	defer d.Close()    //nolint:errcheck // all data is copied
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(d, conn)
		_ = d.Close()
	}()
	_, _ = io.Copy(conn, d.from)
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	select {
	case <-done:
	case <-d.gone:
	}
}
