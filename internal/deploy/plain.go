package deploy

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/awscall"
)

// The SDK's clients of EC2, SSM, Lambda and Service Quotas would add thirty megabytes to the program, which every
// machine downloads, since it is also the agent. Only a few of their calls are needed: see package awscall.

// plainError is an error response of AWS.
type plainError struct {
	action, code, message string
}

func (e *plainError) Error() string { return fmt.Sprintf("%s: %s: %s", e.action, e.code, e.message) }

const plainWithin = 30 * time.Second

// send makes a signed call of a service and returns the response's body and status.
func (t *Target) send(ctx context.Context, service, contentType, target string, body []byte) ([]byte, int, error) {
	ctx, cancel := context.WithTimeout(ctx, plainWithin)
	defer cancel()
	header := http.Header{"Content-Type": {contentType}}
	if target != "" {
		header.Set("X-Amz-Target", target)
	}
	return t.request(ctx, http.MethodPost, service, "/", header, body)
}

// request makes a signed request to a path of a service. The context bounds it.
func (t *Target) request(ctx context.Context, method, service, path string, header http.Header,
	body []byte) ([]byte, int, error) {
	raw, status, err := awscall.Do(ctx, t.cfg, t.Region,
		awscall.Call{Method: method, Service: service, Path: path, Header: header, Body: body})
	if errors.Is(err, awscall.ErrCredentials) {
		err = fmt.Errorf("%w: %w", ErrNoCredentials, err)
	}
	return raw, status, err
}

// invoke calls a Lambda function with an event and returns the response's body and status.
func (t *Target) invoke(ctx context.Context, function string, header http.Header, event []byte) ([]byte, int, error) {
	header.Set("Content-Type", "application/json")
	return t.request(ctx, http.MethodPost, "lambda", "/2015-03-31/functions/"+function+"/invocations", header, event)
}

// ec2 makes a call of EC2's query API (version 2016-11-15) and decodes the XML response.
func (t *Target) ec2(ctx context.Context, action string, in url.Values, out any) error {
	in.Set("Action", action)
	in.Set("Version", "2016-11-15")
	raw, status, err := t.send(ctx, "ec2", "application/x-www-form-urlencoded; charset=utf-8", "", []byte(in.Encode()))
	if err != nil {
		return fmt.Errorf("%s: %w", action, err)
	}
	if status != http.StatusOK {
		var e struct {
			Code    string `xml:"Errors>Error>Code"`
			Message string `xml:"Errors>Error>Message"`
		}
		if xml.Unmarshal(raw, &e) != nil || e.Code == "" {
			e.Code = http.StatusText(status)
		}
		return &plainError{action, e.Code, e.Message}
	}
	if err := xml.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("%s: %w", action, err)
	}
	return nil
}

// ssm makes a call of Systems Manager and ignores the response.
func (t *Target) ssm(ctx context.Context, action string, in any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	raw, status, err := t.send(ctx, "ssm", "application/x-amz-json-1.1", "AmazonSSM."+action, body)
	if err != nil {
		return fmt.Errorf("%s: %w", action, err)
	}
	if status == http.StatusOK {
		return nil
	}
	var e struct {
		Type    string `json:"__type"`
		Message string `json:"message"`
	}
	_ = json.Unmarshal(raw, &e) // otherwise only the status is known
	code := e.Type[strings.LastIndex(e.Type, "#")+1:]
	if code == "" {
		code = http.StatusText(status)
	}
	return &plainError{action, code, e.Message}
}
