package story

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/tradewind-broker/tradewind/internal/agent/token"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/rehearsal/account"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

// rejectsStrangers calls the API without a key, and with a wrong one.
func (s *Story) rejectsStrangers(ctx context.Context) (string, error) {
	plain := client.New(s.World.API, "some-token-of-a-stranger")
	if _, err := plain.Jobs(ctx, 1); err == nil || !strings.Contains(err.Error(), "403") {
		return "", fmt.Errorf("without a signature: %w", err)
	}
	wrong := s.World.User
	wrong.SecretAccessKey += "-not"
	if _, err := client.NewSigned(s.World.API, account.Region,
		credentials.StaticCredentialsProvider{Value: wrong}).Jobs(ctx, 1); err == nil ||
		!strings.Contains(err.Error(), "403") {
		return "", fmt.Errorf("with a wrong key: %w", err)
	}
	if code, err := s.agent(ctx, ""); err != nil || code != http.StatusUnauthorized {
		return "", fmt.Errorf("an agent without a token: %d %w", code, err)
	}
	err := until(ctx, func() error {
		_, err := s.client.Jobs(ctx, 1)
		return err
	})
	return "403 without a signature and with a wrong one, 401 for an agent without a token, 200 for the user", err
}

// agent requests work with a token and returns the status of the answer. It retries if a function was killed.
func (s *Story) agent(ctx context.Context, bearer string) (int, error) {
	return s.raw(ctx, http.MethodPost, wire.PathHello, bearer, `{"address":"127.0.0.1","version":"x"}`)
}

// tokens creates tokens that an attacker might have; it reads the deployment's own key as its operator could.
func (s *Story) tokens(ctx context.Context) (string, error) {
	name := "/" + s.World.Stack.Name + "/token-key"
	out, err := ssm.NewFromConfig(s.World.Config).GetParameter(ctx,
		&ssm.GetParameterInput{Name: &name, WithDecryption: aws.Bool(true)})
	if err != nil {
		return "", err
	}
	key, err := base64.StdEncoding.DecodeString(aws.ToString(out.Parameter.Value))
	if err != nil {
		return "", err
	}
	now := time.Now()
	forged := bytes.Repeat([]byte("x"), len(key))
	mine := wire.Claims{Job: s.job, Cluster: record.ClusterID(s.job, 0, 1), Issued: now.Add(-48 * time.Hour),
		Expires: now.Add(time.Hour)}
	late, other := mine, mine
	late.Expires = now.Add(-time.Hour)
	other.Job, other.Cluster = "another-job", record.ClusterID("another-job", 0, 1)
	var said []string
	for _, c := range []struct {
		what   string
		key    []byte
		claims wire.Claims
		want   []int
	}{
		{"of a finished job", key, mine, []int{http.StatusGone}},
		{"expired", key, late, []int{http.StatusForbidden}},
		{"signed by someone else", forged, mine, []int{http.StatusForbidden}},
		{"of a job that does not exist", key, other, []int{http.StatusGone, http.StatusForbidden, http.StatusNotFound}},
	} {
		text, err := token.Mint(c.key, c.claims)
		if err != nil {
			return "", err
		}
		code, err := s.agent(ctx, text)
		if err != nil || !slices.Contains(c.want, code) {
			return "", fmt.Errorf("a token %s gets %d, not %v: %w", c.what, code, c.want, err)
		}
		said = append(said, fmt.Sprintf("%s: %d", c.what, code))
	}
	text, err := token.Mint(key, mine)
	if err != nil {
		return "", err
	}
	code, err := s.report(ctx, text, record.ClusterID("another-job", 0, 1))
	if err != nil || code != http.StatusForbidden && code != http.StatusGone {
		return "", fmt.Errorf("a report for another job gets %d: %w", code, err)
	}
	said = append(said, fmt.Sprintf("reporting for another job: %d", code))
	if code, err = s.asUser(ctx, text); err != nil || code != http.StatusForbidden {
		return "", fmt.Errorf("an agent's token on a user's route gets %d: %w", code, err)
	}
	return strings.Join(append(said, fmt.Sprintf("on a user's route: %d", code)), "\n"), nil
}

func (s *Story) report(ctx context.Context, bearer, attempt string) (int, error) {
	body := fmt.Sprintf(`{"id":"1","attempt":%q,"event":"succeeded"}`, attempt)
	return s.raw(ctx, http.MethodPost, wire.PathReport, bearer, body)
}

func (s *Story) asUser(ctx context.Context, bearer string) (int, error) {
	return s.raw(ctx, http.MethodGet, "/v1/jobs", bearer, "")
}

func (s *Story) raw(ctx context.Context, method, path, bearer, body string) (int, error) {
	code := 0
	err := until(ctx, func() error {
		req, err := http.NewRequestWithContext(ctx, method, s.World.API+path, strings.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		if bearer != "" {
			req.Header.Set("Authorization", "Bearer "+bearer)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		_ = res.Body.Close() // only its status matters
		if code = res.StatusCode; code >= http.StatusInternalServerError {
			return errors.New(res.Status)
		}
		return nil
	})
	return code, err
}

func (s *Story) rights(context.Context) (string, error) {
	denied := s.World.Rights.Denied()
	var lines []string
	for what, n := range denied {
		lines = append(lines, fmt.Sprintf("%s (%d times)", what, n))
	}
	slices.Sort(lines)
	if len(lines) > 0 {
		return "", fmt.Errorf("denied:\n%s", strings.Join(lines, "\n"))
	}
	return fmt.Sprintf("%d calls of %d functions", s.World.Count.Total(), len(s.World.Functions)), nil
}

// secretShapes matches the texts that no log may contain: agents' tokens and the machines' keys.
var secretShapes = regexp.MustCompile(
	`eyJ[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}|Bearer [A-Za-z0-9._-]{20,}`)

func (s *Story) secrets(ctx context.Context) (string, error) {
	logs := s.World.Logged()
	if found := secretShapes.Find(logs); found != nil {
		return "", fmt.Errorf("a log contains %.12q…", found)
	}
	name := "/" + s.World.Stack.Name + "/token-key"
	out, err := ssm.NewFromConfig(s.World.Config).GetParameter(context.WithoutCancel(ctx),
		&ssm.GetParameterInput{Name: &name, WithDecryption: aws.Bool(true)})
	if err != nil {
		return "", err
	}
	if bytes.Contains(logs, []byte(aws.ToString(out.Parameter.Value))) {
		return "", errors.New("a log contains the key that signs tokens")
	}
	items, files, err := s.hidden(ctx)
	return fmt.Sprintf("searched %d KiB of logs, %d items of the table and %d files", len(logs)>>10, items,
		files), err
}
