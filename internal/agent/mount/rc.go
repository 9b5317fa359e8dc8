package mount

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// control is rclone's remote control (rclone.org/rc), on a socket in a directory that only its user can enter. The
// path of a socket is limited to about a hundred bytes, which long directories exceed. So rclone gets the name
// relative to its working directory, and this process connects through a file descriptor of that directory.
type control struct {
	dir    *os.File
	client *http.Client
}

// socketName is the socket's name in the mount's own directory.
const socketName = "rc"

// rcWithin is the timeout of one call.
const rcWithin = 10 * time.Second

func newControl(path string) (*control, error) {
	dir, err := os.Open(path) //nolint:gosec // the mount's own
	if err != nil {
		return nil, err
	}
	socket := fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), socketName)
	return &control{dir: dir, client: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
		DisableKeepAlives: true,
	}}}, nil
}

func (c *control) close() { _ = c.dir.Close() }

// maxAnswer is the maximum number of bytes read of an answer. A queue of a million files is shorter.
const maxAnswer = 256 << 20

func (c *control) call(ctx context.Context, method string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, rcWithin)
	defer cancel()
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://rclone/"+method, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // read
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("rclone: %s: %s: %.200s", method, resp.Status, answer)
	}
	return json.Unmarshal(answer, out)
}

// queued is a file that waits to be uploaded or is being uploaded.
type queued struct {
	Name      string  `json:"name"`
	ID        uint64  `json:"id"`
	Expiry    float64 `json:"expiry"` // seconds until the next try
	Tries     int     `json:"tries"`
	Uploading bool    `json:"uploading"`
}

// queue returns the files that wait to be uploaded.
func (c *control) queue(ctx context.Context) ([]queued, error) {
	var answer struct{ Queue []queued }
	err := c.call(ctx, "vfs/queue", struct{}{}, &answer)
	return answer.Queue, err
}

// hasten makes rclone upload a file in the given number of seconds.
func (c *control) hasten(ctx context.Context, id uint64, seconds float64) error {
	var answer struct{}
	return c.call(ctx, "vfs/queue-set-expiry", map[string]any{"id": id, "expiry": seconds}, &answer)
}

// moved returns how many bytes have been transferred.
func (c *control) moved(ctx context.Context) (int64, error) {
	var answer struct{ Bytes int64 }
	err := c.call(ctx, "core/stats", struct{}{}, &answer)
	return answer.Bytes, err
}
