package stack

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/jsii-runtime-go"

	"github.com/tradewind-broker/tradewind/events"
)

// prefixPacks is the prefix of the code and files that jobs upload, stored in pieces.
const prefixPacks = "packs/"

// packDays is how many days a piece is kept after it was written. It must equal Keep of internal/pack/depot, which
// relies on it.
const packDays = 30

func packRule() *awss3.LifecycleRule {
	return &awss3.LifecycleRule{
		Id: jsii.String("packs"), Prefix: jsii.String(prefixPacks), Expiration: days(packDays),
		NoncurrentVersionExpiration: days(1), // rewritten with the same bytes
	}
}

// grantPacks grants what uploaded packs need: the API signs uploads of pieces (the holder of such a URL acts with the
// API's rights); API and submit check that a pack is complete; refresh rewrites pieces that long jobs still need.
// Machines only read pieces.
func (d *deployment) grantPacks() {
	work := *d.work.BucketArn()
	pieces := work + "/" + prefixPacks + "*"
	for fn, may := range map[string][]string{
		fnAPI: {"s3:GetObject", "s3:PutObject"}, events.FnSubmit: {"s3:GetObject"},
		events.FnRefresh: {"s3:GetObject", "s3:PutObject"},
	} {
		d.grant(fn, "Packs", may, pieces)
		// Without ListBucket, S3 answers "forbidden" for a missing object.
		d.grant(fn, "PacksMissing", []string{"s3:ListBucket"}, work)
	}
}
