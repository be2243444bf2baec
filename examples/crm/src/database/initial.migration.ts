import type { MigrationInterface, QueryRunner } from 'typeorm';

/** The tables. Of a tenant is what has its name: each query asks for it. */
export class Initial1760000000000 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE "user" (
        id text PRIMARY KEY,
        tenant text NOT NULL,
        role text NOT NULL CHECK (role IN ('seller', 'manager', 'operator')),
        password text NOT NULL
      );
      CREATE TABLE contact (
        id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        tenant text NOT NULL,
        name text NOT NULL,
        email text NOT NULL,
        UNIQUE (tenant, email)
      );
      CREATE TABLE deal (
        id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        tenant text NOT NULL,
        contact int NOT NULL REFERENCES contact ON DELETE CASCADE,
        title text NOT NULL,
        stage text NOT NULL DEFAULT 'open' CHECK (stage IN ('open', 'won', 'lost')),
        cents int NOT NULL CHECK (cents > 0),
        paid int NOT NULL DEFAULT 0 CHECK (paid <= cents)
      );
      CREATE TABLE payment (
        tenant text NOT NULL,
        request text NOT NULL,
        deal int NOT NULL REFERENCES deal ON DELETE CASCADE,
        cents int NOT NULL CHECK (cents > 0),
        PRIMARY KEY (tenant, request)
      );
      CREATE TABLE view (
        tenant text NOT NULL,
        name text NOT NULL,
        description text NOT NULL,
        stage text NOT NULL,
        cents int NOT NULL,
        PRIMARY KEY (tenant, name)
      );
      CREATE TABLE audit (
        id text NOT NULL,
        outcome text NOT NULL,
        time timestamptz NOT NULL,
        tenant text,
        record jsonb NOT NULL,
        PRIMARY KEY (id, outcome)
      );`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP TABLE audit, view, payment, deal, contact, "user"');
  }
}
