// Figures that several parts hold to.

/** Connections to the admin port; more are closed at once, so that they cannot use up the open files of the process. */
export const ADMIN_MAX_CONNECTIONS = 128
