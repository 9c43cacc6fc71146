import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { configDefaults, defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

// simdjson, which the service loads where somebody has installed it, lies with what only the tests need.
process.env['NODE_PATH'] = join(import.meta.dirname, 'test', 'node_modules')

// Five files run at a time across all projects: as many wait, for the turn of a minute or for a store that is away, as use
// a core. By default vitest takes the cores but one, and so one file at a time where there are two. The long tests wait
// more, and run eight at a time (package.json).
const MAX_WORKERS = 5
// These start services, stores and clients.
const SERVICE_PROJECTS = ['contract', 'hostile', 'integration', 'deploy', 'examples', 'client', 'conformance']
/** What a file's tests have started, and the folders that they have made, go with its last test. */
const SET_UP = './test/support/set-up.ts'
const LONG = '**/*.long.test.ts'
/** They put something in the place of a module. */
const MOCKING = readdirSync('test', { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.test.ts'))
  .map((name) => join('test', name))
  .filter((path) => readFileSync(path, 'utf8').includes('vi.mock('))

/** They take minutes each, and begin first: the last one to begin has the other workers wait for it. */
const LONGEST = [
  'simulator/simulator',
  'simulator/clocks',
  'contract/generated-clients',
  'console/manners',
  'console/views',
  'conformance/clients',
  'conformance/faults',
  'client/web-apis',
  'client/property',
  'client/stored',
  'client/service',
  'integration/redis-lost',
  'integration/outages-redis',
  'integration/bucket-apps',
  'integration/reasons',
  'integration/processes',
  'integration/nats-cut-off',
  'integration/installation',
  'integration/transcripts',
  'hostile/fuzz',
  'load/scripts',
]

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      const at = LONGEST.findIndex((name) => moduleId.includes(`/test/${name}.`))
      return at === -1 ? LONGEST.length : at
    }
    return (await super.sort(files)).toSorted((one, other) => rank(one) - rank(other))
  }
}

// Most files share a process with those before them, which saves a third of a second of CPU each. A process of their own have
// those, and the simulator, which puts its time in the place of the system's.
const ALONE = [...MOCKING, 'test/simulator/*.test.ts']
const exclude = [...configDefaults.exclude, LONG, ...ALONE]
const common = {
  setupFiles: SET_UP,
  isolate: false,
  unstubGlobals: true,
  unstubEnvs: true,
  // What is built is tested as it is.
  server: { deps: { external: [/\/dist\//] } },
}
/** A machine that other programs keep busy is slow, and no test fails for that: this ends only what hangs. */
const HANGS_AFTER_MS = 300_000
const unit = { ...common, testTimeout: HANGS_AFTER_MS, hookTimeout: HANGS_AFTER_MS }
const withServices = {
  ...common,
  globalSetup: './test/support/prerequisites.ts',
  testTimeout: HANGS_AFTER_MS,
  hookTimeout: HANGS_AFTER_MS,
  // As long as `eventually` waits (test/support/service.ts): by default a busy machine has one second.
  expect: { poll: { timeout: 90_000 } },
}

const SEEN_BY_CLIENTS = [
  'test/contract/{admin,answers,bytes,cors,engine,errors,fidelity,head,idempotency,keep-alive,limits,media,openapi}.test.ts',
  'test/hostile/{bodies,connections,descriptors,empty-blocks,engine-differences,fragments,framing,half-bodies,heads}.test.ts',
  'test/hostile/{pipelining,slow.long,tls,tls-renewal}.test.ts',
]

export default defineConfig({
  test: {
    maxWorkers: MAX_WORKERS,
    sequence: { sequencer: LongestFirst },
    reporters: ['default', './test/support/summary-reporter.ts'],
    projects: [
      {
        test: {
          ...unit,
          name: 'unit',
          include: ['test/unit/**/*.test.ts', 'test/differential/*.test.ts'],
          exclude,
        },
      },
      { test: { ...unit, name: 'alone', isolate: true, include: ALONE, exclude: [LONG] } },
      ...SERVICE_PROJECTS.map((name) => ({
        test: {
          ...withServices,
          name,
          include: [`test/${name}/**/*.test.ts`],
          exclude,
        },
      })),
      // What clients of the port for events see of Node's own HTTP server, on which sluice runs where uWebSockets.js has no binary.
      {
        test: {
          ...withServices,
          name: 'second-engine',
          isolate: true,
          env: { SLUICE_HTTP_ENGINE: 'node' },
          include: SEEN_BY_CLIENTS,
        },
      },
      // `npm run test:long`: outages, k6, clusters of stores.
      { test: { ...withServices, name: 'long', isolate: true, include: [`test/${LONG}`] } },
    ],
  },
})
