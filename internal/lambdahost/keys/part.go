package keys

import (
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/tradewind-broker/tradewind/internal/lambdahost"
)

// Part lets the broker make tokens for the machines that it launches.
func Part(h *lambdahost.Host) error {
	h.Ports.Tokens = New(ssm.NewFromConfig(h.AWS), h.Env.TokenKey, h.Ports.Now).Mint
	return nil
}
