"""What every interface is made of: a call is resolved, checked, limited, sent and rendered here."""
