package pack

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"path"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// putFor is the lifetime of the grant for a written file.
const putFor = 15 * time.Minute

// CopyTo writes the content of a pack below a prefix of a store, for programs that read URIs but no packs. It returns
// the URI of the file, or that of the folder with a slash at its end. On the way, the content is in a temporary folder.
func CopyTo(ctx context.Context, from Source, to grant.Store, uri, prefix string) (at string, err error) {
	u, err := ParseURI(uri)
	if err != nil {
		return "", err
	}
	list, err := ReadList(ctx, from, u.Digest)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "tradewind-unpack-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close() //nolint:errcheck // read
	name := path.Base(cmp.Or(u.Name, "file"))
	if err := Unpack(ctx, from, list, root, name); err != nil {
		return "", err
	}
	for _, e := range list.Entries {
		if e.Dir || e.Link != "" {
			continue
		}
		key := path.Join(name, e.Path)
		object, err := grant.Below(prefix, key)
		if err != nil {
			return "", err
		}
		body, err := root.ReadFile(key)
		if err == nil {
			err = put(ctx, to, object, body)
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", object, err)
		}
	}
	if list.Single() {
		return grant.Below(prefix, name)
	}
	return grant.Below(prefix, name+"/")
}

// put writes an object.
func put(ctx context.Context, to grant.Store, uri string, body []byte) error {
	granted, err := to.Sign(ctx, grant.Want{Op: grant.Put, URI: uri, For: putFor, Size: int64(len(body))})
	if err != nil {
		return err
	}
	req, err := granted[0].Request(ctx, bytes.NewReader(body), int64(len(body)))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return grant.Redact(err)
	}
	defer resp.Body.Close() //nolint:errcheck // read
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the store answered %s", resp.Status)
	}
	return nil
}
