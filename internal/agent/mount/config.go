package mount

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/files"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// config is the configuration of one rclone process, in files that only its user can read.
type config struct {
	dir, path string
	remote    string // the mounted bucket or folder, in rclone's syntax
	notes     string // path of this remote's metadata, relative to the cache's directory for metadata
	write     func(grant.Credentials) error
	extra     []string // environment variables: paths of files, never secrets
	relay     *relay   // Azure
}

// section is the name of the remote in rclone's file.
const section = "store"

// renewBefore returns when credentials should be renewed: some time before they expire, so that a request that was just
// signed still arrives in time.
func renewBefore(expires time.Time) time.Time {
	left := time.Until(expires)
	return expires.Add(-min(left/3, 5*time.Minute)).UTC()
}

// newConfig writes the files.
func newConfig(s Spec, creds grant.Credentials) (*config, error) {
	o, err := prefix(s.URI)
	if err != nil {
		return nil, err
	}
	c := &config{dir: s.Dir, path: filepath.Join(s.Dir, "rclone.conf")}
	below := strings.TrimSuffix(o.Bucket+"/"+o.Key, "/")
	switch o.Scheme {
	case "file":
		below = "/" + strings.TrimSuffix(o.Key, "/")
		if info, statErr := os.Stat(below); statErr != nil || !info.IsDir() {
			err = fmt.Errorf("this machine has no folder %s", below)
		}
		c.write = func(grant.Credentials) error { return c.section("type", "local") }
	case "s3":
		err = c.s3(creds)
	case "gs":
		c.google()
	case "azblob":
		err = c.azure(creds, o.Bucket)
	default:
		return nil, fmt.Errorf("%s:// cannot be mounted", o.Scheme)
	}
	if err != nil {
		return nil, err
	}
	// The slash at the end stops rclone from checking whether it is an object, which the credentials do not allow.
	c.remote, c.notes = section+":"+below+"/", filepath.Join(section, filepath.FromSlash(below))
	return c, c.write(creds)
}

// prefix parses a URI as a prefix.
func prefix(uri string) (grant.Object, error) {
	p, err := grant.AsPrefix(uri)
	if err != nil {
		return grant.Object{}, err
	}
	return grant.ParsePrefix(p)
}

// s3 lets rclone get its keys from a program (credential_process), as AWS's own tools do. rclone runs it again when
// the keys expire, but would read a file with keys only once. The program is cat.
func (c *config) s3(creds grant.Credentials) error {
	keys, aws := filepath.Join(c.dir, "keys.json"), filepath.Join(c.dir, "aws")
	quoted := "'" + strings.ReplaceAll(keys, "'", `'\''`) + "'"
	profile := "[default]\ncredential_process = /bin/cat " + quoted + "\n"
	if err := files.Write(aws, 0o600, []byte(profile)); err != nil {
		return err
	}
	c.extra = []string{
		"AWS_CONFIG_FILE=" + aws, "AWS_SHARED_CREDENTIALS_FILE=" + filepath.Join(c.dir, "none"),
		"AWS_EC2_METADATA_DISABLED=true",
	}
	provider := "AWS"
	if creds.Endpoint != "" {
		provider = "Other"
	}
	if err := c.section("type", "s3", "provider", provider, "env_auth", "true", "region", creds.Region,
		"endpoint", creds.Endpoint, "force_path_style", fmt.Sprint(creds.PathStyle), "no_check_bucket", "true",
		"chunk_size", "16Mi", "upload_concurrency", "4", "disable_checksum", "true", "no_head", "true",
		"use_unsigned_payload", "true"); err != nil {
		return err
	}
	c.write = func(creds grant.Credentials) error {
		body, err := json.Marshal(map[string]any{
			"Version": 1, "AccessKeyId": creds.AccessKey, "SecretAccessKey": creds.SecretKey,
			"SessionToken": creds.SessionToken, "Expiration": renewBefore(creds.Expires).Format(time.RFC3339),
		})
		if err != nil {
			return err
		}
		return files.Write(keys, 0o600, body)
	}
	return nil
}

// google writes a token with an early expiry, so that rclone reads the next token from the file in time.
func (c *config) google() {
	c.write = func(creds grant.Credentials) error {
		token, err := json.Marshal(map[string]any{
			"access_token": creds.Token, "token_type": "Bearer", "expiry": renewBefore(creds.Expires),
		})
		if err != nil {
			return err
		}
		endpoint := creds.Endpoint
		if endpoint != "" { // the JSON API is not at the top of it
			endpoint = strings.TrimSuffix(endpoint, "/") + "/storage/v1/"
		}
		return c.section("type", "google cloud storage", "token", string(token), "bucket_policy_only", "true",
			"no_check_bucket", "true", "endpoint", endpoint)
	}
}

// azure gives rclone the URL of a relay in this process, which adds the current signature to each request. rclone
// itself would keep the first one.
func (c *config) azure(creds grant.Credentials, container string) (err error) {
	if c.relay, err = newRelay(creds); err != nil {
		return err
	}
	if err = c.section("type", "azureblob", "sas_url", c.relay.url+"/"+url.PathEscape(container)+"?relay=1",
		"no_check_container", "true"); err != nil {
		return err
	}
	c.write = func(creds grant.Credentials) error {
		c.relay.set(creds)
		return nil
	}
	return nil
}

// section writes rclone's file from alternating names and values. Empty values are left out.
func (c *config) section(pairs ...string) error {
	var b strings.Builder
	b.WriteString("[" + section + "]\n")
	for pair := range slices.Chunk(pairs, 2) {
		if strings.ContainsAny(pair[1], "\r\n") {
			return fmt.Errorf("%s has more than one line", pair[0])
		}
		if pair[1] != "" {
			b.WriteString(pair[0] + " = " + pair[1] + "\n")
		}
	}
	return files.Write(c.path, 0o600, []byte(b.String()))
}

func (c *config) renew(creds grant.Credentials) error { return c.write(creds) }

func (c *config) close() {
	if c.relay != nil {
		c.relay.close()
	}
}

// environ returns rclone's environment: the variables by which it finds its helper and the network, and a separate
// directory for everything else.
func (c *config) environ(environ []string) []string {
	out := append([]string{"HOME=" + c.dir, "TMPDIR=" + c.dir}, c.extra...)
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		switch name {
		case "PATH", "LANG", "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy",
			"http_proxy", "no_proxy":
			out = append(out, entry)
		}
	}
	return out
}
