package refresh

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
)

// The Free Tier API has one endpoint in the public partition (botocore, freetier/2023-09-07, endpoint rules). The
// broker makes only one call of it, so the SDK's package is not used.
const (
	planEndpoint = "https://freetier.us-east-1.api.aws"
	planRegion   = "us-east-1"
	planMost     = 1 << 16 // bytes of an answer
)

// plan reports an account on the free plan. If the plan cannot be read, it reports nothing. The right to read the
// plan is not needed for buying, and the error of a launch that the plan refuses contains the next step.
//
// Source: AWS Billing and Cost Management API reference, GetAccountPlanState: accountPlanType is FREE or PAID.
func (c *Checker) plan(ctx context.Context) (missing []driver.Lack) {
	if strings.HasPrefix(c.SDK.Region, "cn-") || strings.HasPrefix(c.SDK.Region, "us-gov-") {
		return nil // other partitions have no free plan
	}
	raw, err := c.planState(ctx)
	var state struct {
		Type string `json:"accountPlanType"`
	}
	if err != nil || json.Unmarshal(raw, &state) != nil || state.Type != "FREE" {
		return nil
	}
	return []driver.Lack{{What: "the account is on the free plan, which refuses most machine types",
		Mend: "aws freetier upgrade-account-plan --account-plan-type PAID"}}
}

func (c *Checker) planState(ctx context.Context) ([]byte, error) {
	endpoint := planEndpoint
	if c.SDK.BaseEndpoint != nil {
		endpoint = strings.TrimSuffix(*c.SDK.BaseEndpoint, "/")
	}
	body := []byte("{}")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint+"/", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-amz-json-1.0")
	req.Header.Set("X-Amz-Target", "AWSFreeTierService.GetAccountPlanState")
	keys, err := c.SDK.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(ctx, keys, req, hex.EncodeToString(sum[:]), "freetier", planRegion,
		time.Now()); err != nil {
		return nil, err
	}
	var client awssdk.HTTPClient = http.DefaultClient
	if c.SDK.HTTPClient != nil {
		client = c.SDK.HTTPClient
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close() //nolint:errcheck // read only
	return io.ReadAll(io.LimitReader(res.Body, planMost))
}
