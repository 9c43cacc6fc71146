import { configDefaults, defineConfig } from 'vitest/config'

// These start services, stores and clients. One group order and one maxWorkers: two files run at a time across projects.
const SERVICE_PROJECTS = ['contract', 'hostile', 'integration', 'deploy', 'examples', 'client']
const LONG = '**/*.long.test.ts'
/** On a shared machine in CI a test may fail once. The summary names each one that did, with its error. */
const retry = process.env.CI === 'true' ? 1 : 0

const withServices = {
  retry,
  globalSetup: './test/support/prerequisites.ts',
  setupFiles: './test/support/show-output.ts',
  testTimeout: 120_000,
  hookTimeout: 60_000,
  maxWorkers: 2,
  sequence: { groupOrder: 1 },
}

export default defineConfig({
  test: {
    reporters: ['default', './test/support/summary-reporter.ts'],
    projects: [
      {
        test: {
          name: 'unit',
          retry,
          include: ['test/unit/**/*.test.ts', 'test/{simulator,differential}/*.test.ts'],
          exclude: [...configDefaults.exclude, LONG],
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
