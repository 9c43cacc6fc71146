import { configDefaults, defineConfig } from 'vitest/config'

// These start services, stores and clients. One group order and one maxWorkers: three files run at a time across
// projects, as many wait, for the turn of a minute or for a store that is away, as use a core.
const SERVICE_PROJECTS = ['contract', 'hostile', 'integration', 'deploy', 'examples', 'client']
/** What a file's tests have started, and the folders that they have made, go with its last test. */
const SET_UP = './test/support/set-up.ts'
const LONG = '**/*.long.test.ts'

const withServices = {
  globalSetup: './test/support/prerequisites.ts',
  setupFiles: SET_UP,
  testTimeout: 120_000,
  hookTimeout: 60_000,
  // As long as `eventually` waits (test/support/service.ts): by default a busy machine has one second.
  expect: { poll: { timeout: 30_000 } },
  maxWorkers: 3,
  sequence: { groupOrder: 1 },
}

export default defineConfig({
  test: {
    reporters: ['default', './test/support/summary-reporter.ts'],
    projects: [
      {
        test: {
          name: 'unit',
          include: ['test/unit/**/*.test.ts', 'test/{simulator,differential}/*.test.ts'],
          exclude: [...configDefaults.exclude, LONG],
          setupFiles: SET_UP,
          testTimeout: 60_000,
          sequence: { groupOrder: 0 },
        },
      },
      ...SERVICE_PROJECTS.map((name) => ({
        test: {
          ...withServices,
          name,
          include: [`test/${name}/**/*.test.ts`],
          exclude: [...configDefaults.exclude, LONG],
        },
      })),
      // `npm run test:long`: outages, k6, clusters of stores.
      { test: { ...withServices, name: 'long', include: [`test/${LONG}`] } },
    ],
  },
})
