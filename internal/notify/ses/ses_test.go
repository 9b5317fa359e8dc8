package ses_test

import (
	"context"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/sesv2"

	"github.com/tradewind-broker/tradewind/internal/notify/ses"
)

// sent records e-mail.
type sent struct{ last *sesv2.SendEmailInput }

func (s *sent) SendEmail(_ context.Context, in *sesv2.SendEmailInput, _ ...func(*sesv2.Options)) (*sesv2.SendEmailOutput,
	error) {
	s.last = in
	return &sesv2.SendEmailOutput{}, nil
}

func TestSend(t *testing.T) {
	var s sent
	m := ses.Mailer{Client: &s, From: "broker@example.org"}
	if err := m.Send(t.Context(), []string{"me@example.org"}, "train failed", "exit code 1"); err != nil {
		t.Fatal(err)
	}
	mail := s.last.Content.Simple
	if *s.last.FromEmailAddress != "broker@example.org" || s.last.Destination.ToAddresses[0] != "me@example.org" ||
		*mail.Subject.Data != "train failed" || *mail.Body.Text.Data != "exit code 1" {
		t.Errorf("%+v", s.last)
	}
}
