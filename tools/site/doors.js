// @ts-check
// The order of the pages: four doors, as the README has them, and what is inside. Each page of the repository has one place.

/** @type {readonly { name: string, pages: readonly string[] }[]} */
export const DOORS = [
  { name: 'Begin', pages: ['README.md'] },
  {
    name: 'Send',
    pages: [
      'docs/ids.md',
      'docs/sdk.md',
      'docs/browsers.md',
      'clients/typescript/README.md',
      'clients/python/README.md',
      'clients/conformance/README.md',
      'docs/coming-from.md',
    ],
  },
  { name: 'Read', pages: ['docs/consuming.md', 'docs/webhooks.md'] },
  {
    name: 'Run',
    pages: [
      'docs/operations.md',
      'docs/settings.md',
      'docs/console.md',
      'docs/tenants.md',
      'docs/portal.md',
      'docs/privacy.md',
      'docs/container.md',
      'docs/kubernetes.md',
      'docs/balancers.md',
      'docs/cluster.md',
      'docs/redis.md',
      'docs/spool.md',
      'docs/runbooks.md',
      'docs/recovery.md',
      'docs/faults.md',
      'docs/upgrade.md',
      'SECURITY.md',
      'docs/supply-chain.md',
    ],
  },
  { name: 'Measure', pages: ['docs/performance.md', 'docs/capacity.md', 'docs/load.md', 'docs/proof.md'] },
  { name: 'Inside', pages: ['ARCHITECTURE.md', 'CONTRIBUTING.md', 'CHANGELOG.md'] },
]

/** Rendered where they are read, under api/. */
export const OPENAPI = [
  { name: 'events', title: 'API for events', file: 'openapi.yaml' },
  { name: 'admin', title: 'Admin API', file: 'openapi-admin.yaml' },
  { name: 'portal', title: 'Portal API', file: 'openapi-portal.yaml' },
]
