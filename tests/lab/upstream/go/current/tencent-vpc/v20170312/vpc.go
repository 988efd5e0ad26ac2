// Package v20170312 has what flannel's backend `tencent-vpc` names of Tencent's SDK, and no more. The SDK is
// one package of 60,000 lines, the largest of all that the lab compiles; kubexm offers the backends vxlan
// and host-gw. Every call fails.
package v20170312

import "errors"

var errLeftOut = errors.New("the lab's flannel is built without the backend tencent-vpc")

type (
	Client struct{}
	Filter struct {
		Name   *string
		Values []*string
	}
	Route struct {
		RouteId                                                 *uint64
		DestinationCidrBlock, GatewayType, GatewayId, RouteType *string
		Enabled                                                 *bool
	}
	RouteTable struct {
		RouteTableId *string
		RouteSet     []*Route
	}
	DescribeRouteTablesRequest struct {
		Filters []*Filter
	}
	DescribeRouteTablesResponse struct {
		Response *struct {
			RouteTableSet []*RouteTable
		}
	}
	routesRequest struct {
		RouteTableId *string
		Routes       []*Route
	}
	CreateRoutesRequest  routesRequest
	CreateRoutesResponse struct{}
	DeleteRoutesRequest  routesRequest
	DeleteRoutesResponse struct{}
)

func NewClientWithSecretId(_, _, _ string) (*Client, error) { return &Client{}, errLeftOut }
func NewDescribeRouteTablesRequest() *DescribeRouteTablesRequest {
	return &DescribeRouteTablesRequest{}
}
func NewCreateRoutesRequest() *CreateRoutesRequest { return &CreateRoutesRequest{} }
func NewDeleteRoutesRequest() *DeleteRoutesRequest { return &DeleteRoutesRequest{} }

func (*Client) DescribeRouteTables(*DescribeRouteTablesRequest) (*DescribeRouteTablesResponse, error) {
	return nil, errLeftOut
}

func (*Client) CreateRoutes(*CreateRoutesRequest) (*CreateRoutesResponse, error) {
	return nil, errLeftOut
}

func (*Client) DeleteRoutes(*DeleteRoutesRequest) (*DeleteRoutesResponse, error) {
	return nil, errLeftOut
}
