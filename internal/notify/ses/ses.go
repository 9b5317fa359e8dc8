// Package ses sends e-mail with Amazon Simple Email Service.
package ses

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sesv2"
	"github.com/aws/aws-sdk-go-v2/service/sesv2/types"
)

// Client is the part of *sesv2.Client that Mailer uses.
type Client interface {
	SendEmail(context.Context, *sesv2.SendEmailInput, ...func(*sesv2.Options)) (*sesv2.SendEmailOutput, error)
}

// Mailer implements notify.Mailer.
type Mailer struct {
	Client Client
	From   string // an identity that the account has verified
}

// New makes a mailer for an account and region.
func New(c aws.Config, from string) *Mailer {
	return &Mailer{Client: sesv2.NewFromConfig(c), From: from}
}

// Send implements notify.Mailer.
func (m *Mailer) Send(ctx context.Context, to []string, subject, text string) error {
	content := func(s string) *types.Content { return &types.Content{Data: &s, Charset: aws.String("UTF-8")} }
	_, err := m.Client.SendEmail(ctx, &sesv2.SendEmailInput{
		FromEmailAddress: &m.From,
		Destination:      &types.Destination{ToAddresses: to},
		Content: &types.EmailContent{Simple: &types.Message{
			Subject: content(subject), Body: &types.Body{Text: content(text)},
		}},
	})
	return err
}
