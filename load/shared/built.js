// @ts-check
// Modules of the built service. Their paths are not known to the type checker, which runs before any build.

/** @param {string} path in `dist` @returns {Promise<any>} */
export const importBuilt = (path) => import(new URL(`../../dist/${path}`, import.meta.url).href)
