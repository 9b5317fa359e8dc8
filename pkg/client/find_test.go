package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/client"
)

func TestReadEndpoint(t *testing.T) {
	for raw, want := range map[string]string{
		"https://abc123.execute-api.eu-west-1.amazonaws.com":        "https://abc123.execute-api.eu-west-1.amazonaws.com eu-west-1",
		"https://abc123.execute-api.eu-west-1.amazonaws.com/":       "https://abc123.execute-api.eu-west-1.amazonaws.com eu-west-1",
		" https://ABC123.Execute-Api.us-east-2.amazonaws.com":       "https://ABC123.Execute-Api.us-east-2.amazonaws.com us-east-2",
		"https://x.execute-api.cn-north-1.amazonaws.com.cn":         "https://x.execute-api.cn-north-1.amazonaws.com.cn cn-north-1",
		"https://broker.example.com/tw":                             "https://broker.example.com/tw ",
		"http://127.0.0.1:8080":                                     "http://127.0.0.1:8080 ",
		"http://localhost:8080":                                     "http://localhost:8080 ",
		"https://abc.execute-api.eu-west-1.amazonaws.com.evil.test": "https://abc.execute-api.eu-west-1.amazonaws.com.evil.test ",
		"http://broker.example.com":                                 "unencrypted",
		"broker.example.com":                                        "is not a broker URL",
		"ftp://broker.example.com":                                  "is not a broker URL",
		"https://":                                                  "is not a broker URL",
		"https://u:secret@broker.example.com":                       "u:xxxxx@",
		"https://broker.example.com/?x=1":                           "is not a broker URL",
	} {
		base, region, err := client.ReadEndpoint(raw, "")
		got := base + " " + region
		if err != nil {
			got = err.Error()
		}
		if err == nil && got != want || err != nil && !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", raw, got, want)
		}
	}
	if _, region, err := client.ReadEndpoint("https://broker.example.com", "eu-north-1"); err != nil || region != "eu-north-1" {
		t.Errorf("a custom host name is signed for %q, %v", region, err)
	}
}

func TestInvalidURLIsReported(t *testing.T) {
	_, err := client.New("127.0.0.1:8080", "token").Jobs(context.Background(), 1)
	var bad *client.EndpointError
	if !errors.As(err, &bad) {
		t.Errorf("got %v", err)
	}
}
