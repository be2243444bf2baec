/** What users read of the session store. */
export const sessionStoreMessages = {
  exists: (id: string) =>
    `The session "${id}" exists already. Reserve an id before creating its record, and make ids unguessable ("sessionIdGenerator").`,
};
