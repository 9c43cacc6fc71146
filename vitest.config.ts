import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    reporters: ['default', './test/support/summary-reporter.ts'],
    projects: [
      { test: { name: 'unit', include: ['test/unit/**/*.test.ts'], testTimeout: 60_000, sequence: { groupOrder: 0 } } },
      {
        test: {
          name: 'service',
          globalSetup: './test/support/prerequisites.ts',
          include: ['contract', 'integration', 'deploy', 'load'].map((folder) => `test/${folder}/**/*.test.ts`),
          testTimeout: 120_000,
          hookTimeout: 60_000,
          maxWorkers: 2,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
})
