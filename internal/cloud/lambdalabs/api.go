package lambdalabs

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// The parts of the API's types that are used.
type (
	instance struct {
		ID     string `json:"id"`
		Name   string `json:"name"`
		Status string `json:"status"`
		Region struct {
			Name string `json:"name"`
		} `json:"region"`
		Type Type  `json:"instance_type"`
		Tags []tag `json:"tags"`
	}

	tag struct {
		Key   string `json:"key"`
		Value string `json:"value"`
	}

	// Type is the API's description of a machine type.
	Type struct {
		Name        string `json:"name"`
		Description string `json:"description"`
		GPU         string `json:"gpu_description"`
		Cents       int    `json:"price_cents_per_hour"` // USD
		Specs       struct {
			VCPU       int `json:"vcpus"`
			MemoryGiB  int `json:"memory_gib"`
			StorageGiB int `json:"storage_gib"`
			GPUs       int `json:"gpus"`
		} `json:"specs"`
	}

	// Sold is a machine type, and the regions that have capacity now. The API does not list other regions that sell it.
	Sold struct {
		Type    Type `json:"instance_type"`
		Regions []struct {
			Name string `json:"name"`
		} `json:"regions_with_capacity_available"`
	}

	launchRequest struct {
		Region   string         `json:"region_name"`
		Type     string         `json:"instance_type_name"`
		SSHKeys  []string       `json:"ssh_key_names"`
		Hostname string         `json:"hostname"`
		Name     string         `json:"name"`
		Image    map[string]any `json:"image,omitempty"`
		UserData string         `json:"user_data"`
		Tags     []tag          `json:"tags"`
	}

	sshKey struct {
		ID     string `json:"id,omitempty"`
		Name   string `json:"name"`
		Public string `json:"public_key"`
	}

	failure struct {
		Code       string `json:"code"`
		Message    string `json:"message"`
		Suggestion string `json:"suggestion"`
	}
)

// Statuses of an instance.
const (
	statusBooting     = "booting"
	statusActive      = "active"
	statusUnhealthy   = "unhealthy"
	statusTerminating = "terminating"
	statusTerminated  = "terminated"
	statusPreempted   = "preempted"
)

// Types returns all machine types that are sold, by name. Errors are *cloud.Error.
func (c *Cloud) Types(ctx context.Context) (map[string]Sold, error) {
	var sold map[string]Sold
	return sold, Typed(c.get(ctx, "/instance-types", &sold))
}

// tries is the maximum number of attempts for a call that the API throttles or that fails.
const tries = 4

// get reads, with retries.
func (c *Cloud) get(ctx context.Context, path string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	for n := 1; ; n++ {
		err := Typed(c.call(ctx, http.MethodGet, path, nil, out))
		wait, again := repeats(err)
		if err == nil || !again || n == tries || clock.Pause(ctx, wait) != nil {
			return err
		}
	}
}

// maxAnswer is the maximum size of an answer, in bytes.
const maxAnswer = 16 << 20

// call makes one request. Its error is an *apiError if the API answered with one.
func (c *Cloud) call(ctx context.Context, method, path string, in, out any) error {
	key, err := c.cfg.Key(ctx)
	if errors.Is(err, ErrKey) {
		return &cloud.Error{Kind: cloud.Auth, Cloud: Name, Code: codeNoKey, Message: err.Error(), Err: err}
	}
	if err != nil { // the key's store is unavailable: the key itself may be fine
		return &cloud.Error{Kind: cloud.Transient, Cloud: Name, Code: codeKeyAway, Message: err.Error(), Err: err}
	}
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.cfg.Endpoint+"/api/v1"+path, body)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Authorization", "Bearer "+key)
	if in != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if response.StatusCode == http.StatusOK {
		var data struct {
			Data json.RawMessage `json:"data"`
		}
		if err = json.Unmarshal(text, &data); err == nil && out != nil {
			err = json.Unmarshal(data.Data, out)
		}
		if err != nil {
			return fmt.Errorf("%s %s: the answer is not in the API's documented format: %w", method, path, err)
		}
		return nil
	}
	var said struct {
		Error failure `json:"error"`
	}
	_ = json.Unmarshal(text, &said) // the answer may come from a proxy
	return &apiError{failure: said.Error, status: response.StatusCode, retryAfter: retryAfter(response.Header)}
}

// end terminates machines. Missing ones are not an error. Because the API ends no machine at all if one is missing,
// end then ends the others one by one.
func (c *Cloud) end(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	err := c.endAll(ctx, ids)
	if !isCode(err, codeNotFound) {
		return err
	}
	for _, id := range ids {
		if err := c.endAll(ctx, []string{id}); err != nil && !isCode(err, codeNotFound) {
			return err
		}
	}
	return nil
}

// endAll terminates machines, all or none. It retries, because a repetition is harmless.
func (c *Cloud) endAll(ctx context.Context, ids []string) error {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	for n := 1; ; n++ {
		err := Typed(c.call(ctx, http.MethodPost, "/instance-operations/terminate",
			map[string]any{"instance_ids": ids}, nil))
		wait, again := repeats(err)
		if err == nil || !again || n == tries || clock.Pause(ctx, wait) != nil {
			return err
		}
	}
}

// key returns the SSH key for launching machines. If none is configured, it creates a key for the deployment unless
// that exists, and discards the private key.
func (c *Cloud) key(ctx context.Context) (string, error) {
	release, err := c.locks.Take(ctx, "ssh key") // no cluster has a name with a space
	if err != nil {
		return "", err
	}
	defer release()
	c.mu.Lock()
	name := c.sshKey
	c.mu.Unlock()
	if name != "" {
		return name, nil
	}
	name = c.ownKey()
	if there, err := c.hasKey(ctx, name); err != nil {
		return "", err
	} else if !there {
		public, _, err := ed25519.GenerateKey(nil)
		if err != nil {
			return "", err
		}
		call, cancel := context.WithTimeout(ctx, readWithin)
		defer cancel()
		err = c.call(call, http.MethodPost, "/ssh-keys", sshKey{Name: name, Public: openSSH(public)}, nil)
		if err != nil { // another process may have been faster
			if there, again := c.hasKey(ctx, name); again != nil || !there {
				return "", err
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sshKey = name
	return name, nil
}

// ownKey is the name of the key that the driver creates for the deployment.
func (c *Cloud) ownKey() string { return "tradewind-" + hash(c.cfg.Deployment, deploymentBytes) }

func (c *Cloud) hasKey(ctx context.Context, name string) (bool, error) {
	id, err := c.keyID(ctx, name)
	return id != "", err
}

// keyID returns the ID of the account's SSH key with a name, or an empty string.
func (c *Cloud) keyID(ctx context.Context, name string) (string, error) {
	var keys []sshKey
	if err := c.get(ctx, "/ssh-keys", &keys); err != nil {
		return "", err
	}
	for _, k := range keys {
		if k.Name == name {
			return k.ID, nil
		}
	}
	return "", nil
}

// Clean implements driver.Cleaner: it deletes the SSH key that launches have created. A key that the settings name
// stays.
func (c *Cloud) Clean(ctx context.Context, tell func(deleted string)) error {
	id, err := c.keyID(ctx, c.ownKey())
	if err != nil || id == "" {
		return err
	}
	call, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	if err := Typed(c.call(call, http.MethodDelete, "/ssh-keys/"+url.PathEscape(id), nil, nil)); err != nil {
		return err
	}
	tell("SSH key " + c.ownKey())
	return nil
}

// lostKey reports whether the account no longer has the key that was created for the deployment, so that it must be
// created again.
func (c *Cloud) lostKey(ctx context.Context, name string) bool {
	there, err := c.hasKey(ctx, name)
	if err != nil || there || c.cfg.SSHKey != "" {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sshKey = ""
	return true
}

// openSSH formats a public key for ~/.ssh/authorized_keys (RFC 8709, section 4; RFC 4253, section 6.6).
func openSSH(key ed25519.PublicKey) string {
	const kind = "ssh-ed25519"
	var blob []byte
	for _, part := range [][]byte{[]byte(kind), key} {
		blob = binary.BigEndian.AppendUint32(blob, uint32(len(part))) //nolint:gosec // a few bytes
		blob = append(blob, part...)
	}
	return kind + " " + base64.StdEncoding.EncodeToString(blob) + " tradewind"
}

// image selects an image by its hexadecimal ID, or by its family.
func image(name string) map[string]any {
	switch {
	case name == "":
		return nil
	case len(strings.ReplaceAll(name, "-", "")) == 32 && strings.Trim(name, "0123456789abcdef-") == "":
		return map[string]any{"id": name}
	}
	return map[string]any{"family": name}
}

// repeats reports whether a call that only reads or ends machines is to be retried, and returns the wait before that.
func repeats(err error) (time.Duration, bool) {
	switch e := typed(err); {
	case e == nil:
		return 0, false
	case e.Kind == cloud.Throttled:
		return e.RetryAfter, true
	default:
		return time.Second, e.Kind == cloud.Transient
	}
}
