import { Column, Entity, PrimaryColumn } from 'typeorm';

@Entity()
export class Audit {
  @PrimaryColumn('text') id!: string;
  @PrimaryColumn('text') outcome!: string;
  @Column('timestamptz') time!: Date;
  @Column('text', { nullable: true }) tenant?: string | undefined;
  @Column('jsonb') record!: object;
}
