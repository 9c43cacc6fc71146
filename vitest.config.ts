import { configDefaults, defineConfig } from 'vitest/config'

// These start services, stores and clients. One group order and one maxWorkers: two files run at a time across projects.
const SERVICE_PROJECTS = ['contract', 'hostile', 'integration', 'deploy', 'examples', 'client']
const LONG = '**/*.long.test.ts'

const withServices = {
  globalSetup: './test/support/prerequisites.ts',
  setupFiles: './test/support/show-output.ts',
  testTimeout: 120_000,
  hookTimeout: 60_000,
  // As long as `eventually` waits (test/support/service.ts): by default a busy machine has one second.
  expect: { poll: { timeout: 15_000 } },
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
