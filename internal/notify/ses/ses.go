// Package ses sends e-mail with Amazon Simple Email Service.
package ses

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/tradewind-broker/tradewind/internal/awscall"
)

// Mailer implements notify.Mailer.
type Mailer struct {
	sdk  aws.Config
	from string
}

// New makes a mailer for an account and region. from is an identity that the account has verified there.
func New(c aws.Config, from string) *Mailer { return &Mailer{c, from} }

// sendWithin is the maximum time of one call.
const sendWithin = 30 * time.Second

// content is a text (SES API v2, Content).
type content struct {
	Data    string
	Charset string
}

// email is a request (SES API v2, SendEmail).
type email struct {
	FromEmailAddress string
	Destination      struct{ ToAddresses []string }
	Content          struct {
		Simple struct {
			Subject content
			Body    struct{ Text content }
		}
	}
}

// Send implements notify.Mailer.
func (m *Mailer) Send(ctx context.Context, to []string, subject, text string) error {
	var e email
	e.FromEmailAddress, e.Destination.ToAddresses = m.from, to
	e.Content.Simple.Subject, e.Content.Simple.Body.Text = content{subject, "UTF-8"}, content{text, "UTF-8"}
	body, err := json.Marshal(e)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendWithin)
	defer cancel()
	raw, status, err := awscall.Do(ctx, m.sdk, m.sdk.Region, awscall.Call{
		Method: http.MethodPost, Service: "ses", Host: "email", Path: "/v2/email/outbound-emails",
		Header: http.Header{"Content-Type": {"application/json"}}, Body: body,
	})
	if err != nil || status == http.StatusOK {
		return err
	}
	var refused struct {
		Message string `json:"message"`
	}
	_ = json.Unmarshal(raw, &refused) // otherwise only the status is known
	return fmt.Errorf("SES: %s: %s", http.StatusText(status), refused.Message)
}
